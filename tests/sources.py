# SPDX-License-Identifier: MIT
"""sources.py -- what the virtual GPU and the tests are made of.

These lists are what configure.py turns into build.ninja: one name a line, each list sorted, so that
two changes that add a file each meet in no line. A name stands for the file that the comment above
its list says; a file that is in no list is an error of `ninja lint`.
"""

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
    arena_layout
    checkpoint_file
    command
    conformance
    convolution
    data_folder
    differences
    faulty_device
    feed
    fresh_process
    gpu_arrays
    gpu_machines
    gpu_training
    guarded
    late_device
    lying_replica
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
    run_files
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

# tests/peers/<name>.c: compiled in the same checks, and no more, as what they are linked with needs
# the headers of other libraries (tests/peers/kernels)
PEERS = """
    kernel_peers
""".split()

# check, check-asan, check-tsan
TESTS = """
    test_activation
    test_all_reduce
    test_allocations
    test_arena
    test_augment
    test_augment_training
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
    test_cli_eval
    test_cli_notes
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
    test_dataset_scale
    test_decode
    test_dense_gradient
    test_device
    test_dropout
    test_evaluate
    test_faults
    test_faulty_device
    test_first_weights
    test_fold
    test_format16
    test_gather
    test_gemm
    test_gradient_plan
    test_gradients
    test_gradients_of_losses
    test_guard
    test_idx
    test_input
    test_json
    test_kernels
    test_kernels_refused
    test_late_streams
    test_link
    test_loss_regression
    test_loss_sigmoid
    test_loss_softmax
    test_memory
    test_metrics
    test_model
    test_model_errors
    test_model_graph
    test_nearest
    test_network_gradients
    test_nonfinite
    test_normalize
    test_npy
    test_numerics
    test_optimizer
    test_pcie
    test_pipeline
    test_pipeline_pace
    test_planes
    test_png
    test_pool
    test_pooled
    test_protocol
    test_refusals
    test_rendezvous
    test_residual
    test_resume
    test_resume_refused
    test_ring
    test_ring_order
    test_run_folder
    test_run_folder_again
    test_run_log
    test_sample_cache
    test_sampler
    test_scale
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
    test_update
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
    test_cli_eval
    test_cli_notes
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
    "test_allocations": "malloc calloc realloc aligned_alloc posix_memalign strdup free".split(),
    "test_cuda_collectives": "ls_link_send_begin ls_link_recv_begin".split(),
    "test_refusals": ("malloc calloc realloc aligned_alloc posix_memalign strdup strndup "
                      "open_memstream fclose pthread_create readdir getline").split(),
    "test_cuda_waits": "ls_stream_wait ls_link_send_begin ls_link_recv_begin".split(),
}
