# SPDX-License-Identifier: MIT
"""sources.py -- what the tree is made of: the lists that configure.py turns into build.ninja.

One name a line and each list sorted, so that two changes that add a file each meet in no line. A
name stands for the file that the comment above its list says; a file that is in no list is an
error of `ninja lint`.
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
        checkpoint_header
        csv
        data_file
        dataset
        dataset_cifar
        dataset_csv
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
        folder
        forward
        gradient_plan
        guard
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
        optimizer
        rank
        replica
        replica_layout
        resume
        rules
        schedule
        scores
        state
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
    batch_sum
    batchnorm
    batchnorm_sums
    conv
    decode
    dense_gradient
    dropout
    filter_rows
    format16
    gemm
    in_place
    loss
    patch
    peak
    pool
    pooled_forward
    pooled_gradient
    product
    table
    tensors
    tile
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

# -- the virtual GPU: tests/vgpu/<name>.c; driver_* around the interpreter ptx_* --
VGPU = """
    driver_call
    driver_config
    driver_copy
    driver_device
    driver_error
    driver_event
    driver_handle
    driver_launch
    driver_memory
    driver_module
    driver_order
    driver_stream
    ptx_access
    ptx_check
    ptx_collective
    ptx_execute
    ptx_instruction
    ptx_kernel
    ptx_lex
    ptx_memory
    ptx_parse
    ptx_pressure
    ptx_program
    ptx_rows
    ptx_run
    ptx_symbol
    ptx_table
""".split()

# -- tests: tests/support/<name>.c, tests/unit/<name>.c --
TEST_SUPPORT = """
    checkpoint_file
    command
    conformance
    convolution
    data_folder
    faulty_device
    fresh_process
    gpu_arrays
    gpu_machines
    gpu_training
    guarded
    late_device
    machines
    models
    naive
    network
    normalisation
    product
    program
    ptx_machine
    ranks
    reduction
    reference
    residual
    simulation
    stored_png
    training
    virtual_driver
    virtual_machine
""".split()

# Support that needs the toolkit's headers.
TEST_SUPPORT_CUDA = """
    one_gpu
""".split()

# check, check-asan, check-tsan
TESTS = """
    test_activation
    test_all_reduce
    test_allocations
    test_arena
    test_augment
    test_batch_sum
    test_batchnorm
    test_bench
    test_broken_data
    test_bucket
    test_callbacks
    test_checkpoint
    test_checkpoint_damage
    test_checkpoint_disk
    test_cifar10
    test_cifar100
    test_cli
    test_cli_outside
    test_cli_train
    test_cli_verify
    test_comm_faults
    test_config
    test_contact_sheet
    test_conv
    test_crc32c
    test_csv
    test_dataset
    test_decode
    test_dense_gradient
    test_device
    test_dropout
    test_evaluate
    test_faults
    test_faulty_device
    test_fold
    test_format16
    test_gather
    test_gemm
    test_gradient_plan
    test_gradients
    test_guard
    test_idx
    test_input
    test_json
    test_kernels
    test_late_streams
    test_link
    test_loss
    test_memory
    test_metrics
    test_model
    test_model_errors
    test_model_graph
    test_nearest
    test_network_gradients
    test_normalize
    test_npy
    test_numerics
    test_optimizer
    test_pcie
    test_pipeline
    test_planes
    test_png
    test_pool
    test_pooled
    test_protocol
    test_rendezvous
    test_residual
    test_resume
    test_resume_refused
    test_ring
    test_ring_order
    test_run_folder
    test_sample_cache
    test_sampler
    test_schedule
    test_semantics
    test_sha256
    test_shard_sums
    test_status
    test_tensors
    test_thread
    test_thread_pool
    test_topology
    test_tree
    test_unused
    test_vgpu_driver
    test_vgpu_gemm
    test_vgpu_launch
    test_vgpu_links
    test_vgpu_meetings
    test_vgpu_memory
    test_vgpu_order
    test_vgpu_ptx
    test_vgpu_reports
    test_weights
    test_whole
""".split()

# check only: whole trainings, too slow under a sanitizer
TESTS_HOST = """
    test_golden
    test_golden_layers
    test_golden_resnet
    test_lockstep
    test_npy_large
""".split()

# check-long: exhaustive sweeps
TESTS_LONG = """
    long_all_reduce
    long_conv
    long_gemm
    long_kills
    long_learning
    long_lockstep
    long_numerics
    long_residual
    long_resnet
""".split()

# These run the program itself, $LOCKSTEP.
TESTS_OF_PROGRAM = """
    long_kills
    test_bench
    test_cli
    test_cli_outside
    test_cli_train
    test_cli_verify
""".split()

# These open the virtual GPU, $LOCKSTEP_VGPU_LIBRARY, or link what it is made of.
TESTS_OF_VGPU = """
    test_vgpu_driver
    test_vgpu_gemm
    test_vgpu_launch
    test_vgpu_links
    test_vgpu_meetings
    test_vgpu_memory
    test_vgpu_order
    test_vgpu_ptx
    test_vgpu_reports
""".split()

# check-cuda, check-cuda-asan, check-cuda-tsan: on the virtual GPU
TESTS_CUDA = """
    test_cuda_arena
    test_cuda_batchnorm
    test_cuda_collectives
    test_cuda_conformance
    test_cuda_decode
    test_cuda_device
    test_cuda_driver
    test_cuda_elements
    test_cuda_format16
    test_cuda_kernels
    test_cuda_loss
    test_cuda_pairs
    test_cuda_products
    test_cuda_program
    test_cuda_resnet
    test_cuda_tensors
    test_cuda_train
    test_cuda_waits
""".split()

# check-cuda only: whole trainings, too slow under a sanitizer
TESTS_CUDA_HOST = """
    test_cuda_links
""".split()

# check-cuda-long
TESTS_CUDA_LONG = """
    long_cuda_collectives
    long_cuda_faults
""".split()

# check-cuda-long, and the same with sanitizers
TESTS_CUDA_LONG_ALL = """
    long_cuda_steps
""".split()

# Functions that a test puts its own in the place of.
REPLACED = {
    "test_allocations": "malloc calloc realloc aligned_alloc strdup free".split(),
    "test_cuda_collectives": "ls_link_send_begin ls_link_recv_begin".split(),
    "test_cuda_waits": "ls_stream_wait ls_link_send_begin ls_link_recv_begin".split(),
}
