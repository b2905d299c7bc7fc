/* SPDX-License-Identifier: MIT */
/* probe.h -- what the probe's launcher and its kernel agree on. Valid C11, C++14 and device code.
 */
#ifndef LS_DEVICE_PROBE_H
#define LS_DEVICE_PROBE_H

/* to[i] = from[i] for the bytes of a span; either side may be another GPU's memory. */
typedef struct {
    const unsigned char *from;
    unsigned char *to;
    unsigned long long bytes;
} ls_probe_params;

enum { LS_PROBE_THREADS = 128 };

#endif
