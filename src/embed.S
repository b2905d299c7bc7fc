/* SPDX-License-Identifier: MIT */
/* embed.S -- files that become part of the binary, byte for byte.
 *
 * EMBED name, path defines the symbols ls_embedded_<name> and ls_embedded_<name>_end around the
 * contents of a file (path relative to the root of the tree, which is where the assembler runs or
 * what -I names) and adds one zero byte after them, so that a text is also a C string.
 */
    .macro EMBED name, path
    .global ls_embedded_\name
    .global ls_embedded_\name\()_end
    .balign 64
ls_embedded_\name:
    .incbin "\path"
ls_embedded_\name\()_end:
    .byte 0
    .endm

    .section .rodata
    EMBED digits, "src/data/digits.csv"
    EMBED model_cifar10_cnn, "src/models/cifar10-cnn.model"
    EMBED model_digits_cnn, "src/models/digits-cnn.model"
    EMBED model_linear, "src/models/linear.model"
    EMBED model_mlp, "src/models/mlp.model"
    EMBED model_mnist_mlp, "src/models/mnist-mlp.model"
    EMBED model_resnet18, "src/models/resnet18.model"
    EMBED model_resnet20, "src/models/resnet20.model"
    EMBED model_resnet50, "src/models/resnet50.model"

    .section .note.GNU-stack,"",@progbits
