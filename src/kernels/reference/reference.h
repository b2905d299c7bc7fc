/* SPDX-License-Identifier: MIT */
/* reference.h -- the reference implementation of every op: ls_<op>_reference. */
#ifndef LS_KERNELS_REFERENCE_REFERENCE_H
#define LS_KERNELS_REFERENCE_REFERENCE_H

#include "kernels/kernels.h"

#define LS_DECLARE_REFERENCE(op) LS_MUST_USE ls_##op##_fn ls_##op##_reference;
LS_KERNELS(LS_DECLARE_REFERENCE)
#undef LS_DECLARE_REFERENCE

#endif
