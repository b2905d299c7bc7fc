/* SPDX-License-Identifier: MIT */
/* version.h -- the version of this tree, as --version prints it and environment.json records it. */
#ifndef LS_VERSION_H
#define LS_VERSION_H

#define LS_VERSION "0.1.0"

#endif
