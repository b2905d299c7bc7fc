/* SPDX-License-Identifier: MIT */
/* embed_cuda.S -- the device code becomes part of the binary, with a table that tells it apart.
 *
 * Every .cu file was made into a fatbin and two PTX texts (configure.py). IMAGE folder, name puts
 * the three where they can be loaded from -- aligned to 64 bytes, the texts ended by a zero -- and
 * an entry into the table that is being written, eight bytes a field (ls_cuda_image of
 * device/cuda_module.h):
 *
 *     name   fatbin   lower target   its PTX   80   its PTX
 *
 * The build defines LS_CUDA_KERNELS, the names of the files of kernels/cuda with commas between,
 * and LS_CUDA_LOW, the lower target.
 */
    .macro IMAGE folder, name
    .pushsection .rodata
    .balign 64
.Lfatbin_\name:
    .incbin "build/cuda/obj/\folder/\name\().fatbin"
    .balign 64
.Llow_\name:
    .incbin "build/cuda/obj/\folder/\name\().low.ptx"
    .byte 0
    .balign 64
.Lhigh_\name:
    .incbin "build/cuda/obj/\folder/\name\().80.ptx"
    .byte 0
.Lname_\name:
    .asciz "\name"
    .popsection
    .8byte .Lname_\name, .Lfatbin_\name, LS_CUDA_LOW, .Llow_\name, 80, .Lhigh_\name
    .endm

    .macro TABLE name
    .balign 8
    .global \name
\name:
    .endm

    .macro TABLE_END
    .8byte 0, 0, 0, 0, 0, 0
    .endm

    .section .data.rel.ro, "aw"
    TABLE ls_embedded_cuda_images
    .irp name, LS_CUDA_KERNELS
    .ifnb \name
    IMAGE kernels/cuda, \name
    .endif
    .endr
    TABLE_END

    TABLE ls_embedded_cuda_probe
    IMAGE device, probe
    TABLE_END

    .section .note.GNU-stack, "", @progbits
