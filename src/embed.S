/* SPDX-License-Identifier: MIT */
/* embed.S -- files that are part of the binary: the built-in models and the built-in data.
 *
 * Each becomes a symbol in read-only memory, followed by a NUL byte so that text can be read as a C
 * string, and a second symbol <name>_end at that NUL, for those who need the length. Paths are relative to
 * the repository's root, where the assembler is run (-I.); build.ninja lists every file here as an
 * implicit input of this one.
 */
        .section .rodata

.macro embed name, file
        .balign 64
        .globl \name
        .globl \name\()_end
\name:
        .incbin "\file"
\name\()_end:
        .byte 0
.endm

        embed ls_embedded_model_cifar10_cnn, src/models/cifar10-cnn.model
        embed ls_embedded_model_digits_cnn, src/models/digits-cnn.model
        embed ls_embedded_model_linear, src/models/linear.model
        embed ls_embedded_model_mlp, src/models/mlp.model
        embed ls_embedded_model_mnist_mlp, src/models/mnist-mlp.model

        .section .note.GNU-stack,"",@progbits
