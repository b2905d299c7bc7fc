# SPDX-License-Identifier: MIT
"""sources.py -- what the library and the program are made of.

These lists are what configure.py turns into build.ninja: one name a line, each list sorted, so that
two changes that add a file each meet in no line. A name stands for the file that the comment above
its list says; a file that is in no list is an error of `ninja lint`.
"""

# -- the library: src/<folder>/<name>.c; without cli/main.c, which is not part of it --
SOURCES = {
    "": """
        cores
        crc32c
        nearest
        page
        planes
        pool
        sha256
        status
        thread
        wait
    """.split(),
    "device": """
        device
        host
        host_room
        paper
        pcie
        ring_order
        topology
    """.split(),
    "kernels": """
        arena
        batchnorm
        check
        elementwise
        fold
        kernels
        loss
        row_merge
    """.split(),
    "kernels/reference": """
        activation
        arena
        batch_sum
        batchnorm
        conv
        decode
        dropout
        format16
        gemm
        loss
        pool
        shard_sums
        table
        tensors
        whole
    """.split(),
    "collectives": """
        all_reduce
        bucket
        comm
        comm_create
        gather
        ledger
        link
        overdue
        reduce_direct
        reduce_ring
        rendezvous
        ring
        ring_describe
        tree
    """.split(),
    "io": """
        augment
        augment_pixels
        batch_slot
        checkpoint
        checkpoint_crc
        checkpoint_header
        checkpoint_header_write
        csv
        data_file
        dataset
        dataset_cifar
        dataset_csv
        dataset_csv_fields
        dataset_digits
        dataset_fill
        dataset_idx
        dataset_npy
        dataset_read
        dataset_report
        dataset_scale
        dataset_spec
        json
        json_write
        new_file
        npy
        pipeline
        png
        run_folder
        run_log
        sample_cache
        sampler
    """.split(),
    "train": """
        apply
        backward
        best
        builtin
        callbacks
        class_weights
        compare
        config
        config_schedule
        config_table
        config_value
        environment
        evaluate
        explain
        first_weights
        folder
        forward
        gradient_plan
        guard
        idle
        input
        loss
        machine
        memory
        metrics
        model_describe
        model_init
        model_ops
        model_options
        model_parameters
        model_parse
        model_shapes
        model_words
        nonfinite
        normalize
        notes
        optimizer
        pattern
        rank
        replica
        replica_layout
        resume
        rules
        schedule
        scores
        state
        state_scale
        state_text
        step
        storage
        trainer
    """.split(),
    "cli": """
        bench
        bench_allreduce
        bench_cases
        bench_exchange
        bench_kernel_run
        bench_kernels
        bench_peak
        bench_step
        console
        contact_sheet
        cut_file
        data
        devices
        eval
        evaluation
        glyph
        ladder
        options
        predict
        report
        rung_batch
        rung_bits
        rung_speed
        scratch_folder
        show
        signals
        train
        verify
    """.split(),
}

# One micro-kernel source per op, src/kernels/host/<name>.c, compiled once per instruction set
# (src/kernels/host/host.h).
HOST_KERNELS = """
    activation
    arena
    average_pool
    batch_sum
    batchnorm
    batchnorm_sums
    conv
    decode
    dense_gradient
    dense_tile
    dropout
    filter_rows
    format16
    gemm
    in_place
    loss
    near_gemm
    part
    patch
    peak
    pool
    pooled_forward
    pooled_gradient
    pooled_tile
    product
    split
    table
    tensors
    tile
    update
    weight_gradient
    weight_plan
    weight_slice
    whole
""".split()

# A build links one of these: what chooses at run time, and the sets of kernels it chooses among.
HOST_TABLES = {
    "x86_64": (["kernels/host/cpu", "cpu_bytes_x86_64"], ["portable", "avx2", "avx512"]),
    "portable": (["kernels/host/cpu_portable", "cpu_bytes_portable"], ["portable"]),
}

# A build links one of these as well: the CUDA backend, src/<name>.c, or what says that there is
# none.
GPU_SOURCES = {
    "cuda": """
        device/cuda
        device/cuda_context
        device/cuda_copy
        device/cuda_driver
        device/cuda_facts
        device/cuda_marks
        device/cuda_module
        device/cuda_probe
        device/cuda_probe_child
        device/cuda_speed
        kernels/cuda/launch
        kernels/cuda/launch_arena
        kernels/cuda/launch_batch
        kernels/cuda/launch_batchnorm
        kernels/cuda/launch_elements
        kernels/cuda/launch_product
    """.split(),
    "absent": """
        device/cuda_absent
        kernels/cuda_absent
    """.split(),
}

# Device code: src/kernels/cuda/<name>.cu, the ops' kernels; and src/<name>.cu, the link probe's.
CUDA_KERNELS = """
    activation
    arena
    batch_sum
    batchnorm
    conv
    decode
    dropout
    format16
    gemm
    loss
    pool
    shard_sums
    tensors
    weight_gradient
    whole
""".split()
CUDA_PROBE = "device/probe"

# What src/embed.S includes.
EMBEDDED = """
    src/data/digits.csv
    src/models/cifar10-cnn.model
    src/models/digits-cnn.model
    src/models/linear.model
    src/models/mlp.model
    src/models/mnist-mlp.model
    src/models/resnet18.model
    src/models/resnet20.model
    src/models/resnet50.model
""".split()
