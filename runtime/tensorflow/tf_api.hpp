// SPDX-License-Identifier: Apache-2.0
//
// The part of TensorFlow's C API (tensorflow/c/{kernels,ops,tf_tensor,tf_status}.h) that our ops
// need: own declarations, and a table of functions that is filled from the TensorFlow already in
// the process. Nothing of TensorFlow is needed to build, and nothing of it is in the NEEDED list.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

namespace hvd::tf {

// Opaque handles; only pointers to them ever exist here.
struct Status;
struct Tensor;
struct OpBuilder;
struct KernelBuilder;
struct Construction;
struct Context;
struct ShapeContext;
struct Shape;

/// What TensorFlow hands to an asynchronous kernel as "TF_AsyncOpKernelDoneCallback*" is the
/// address of this function object on the caller's stack: it must be copied before the kernel
/// returns. The C API has no function for that, so the copy is made with the type TensorFlow uses.
using DoneCallback = std::function<void()>;

/// TF_DataType.
enum class DataType : int {
    float32 = 1,
    float64 = 2,
    int32 = 3,
    uint8 = 4,
    int16 = 5,
    int8 = 6,
    int64 = 9,
    boolean = 10,
    bfloat16 = 14,
    uint16 = 17,
    float16 = 19,
    uint32 = 22,
    uint64 = 23,
};

/// TF_Code.
enum class Code : int {
    ok = 0,
    invalid_argument = 3,
    deadline_exceeded = 4,
    failed_precondition = 9,
    aborted = 10,
    unimplemented = 12,
    internal = 13,
};

/// TF_StringView: not terminated.
struct StringView {
    const char* data;
    std::size_t size;
};

/// The functions, under their names without "TF_". All are set once load() has returned "".
struct Api {
    Status* (*new_status)();
    void (*delete_status)(Status*);
    void (*set_status)(Status*, Code, const char*);
    Code (*get_code)(const Status*);
    const char* (*message)(const Status*);

    OpBuilder* (*new_op_definition_builder)(const char* name);
    void (*op_add_attr)(OpBuilder*, const char* spec);
    void (*op_add_input)(OpBuilder*, const char* spec);
    void (*op_add_output)(OpBuilder*, const char* spec);
    // There are no stateless ops through TF_OpDefinitionBuilderSetIsStateful: called with false, it
    // makes the op stateful all the same. It is called for ops that are stateful, and only there.
    void (*op_set_stateful)(OpBuilder*, bool);
    void (*op_set_shape_function)(OpBuilder*, void (*)(ShapeContext*, Status*));
    void (*register_op)(OpBuilder*, Status*);

    std::int64_t (*shape_num_inputs)(ShapeContext*);
    Shape* (*new_shape)();
    void (*delete_shape)(Shape*);
    void (*shape_get_input)(ShapeContext*, int index, Shape*, Status*);
    void (*shape_set_output)(ShapeContext*, int index, Shape*, Status*);
    Shape* (*shape_scalar)(ShapeContext*);
    Shape* (*shape_vector)(ShapeContext*, std::size_t size);
    int (*shape_rank_known)(ShapeContext*, Shape*);
    std::int64_t (*shape_rank)(ShapeContext*, Shape*);
    void (*shape_subshape)(ShapeContext*,
                           Shape*,
                           std::int64_t begin,
                           std::int64_t end,
                           Shape* result,
                           Status*);
    void (*shape_concatenate)(ShapeContext*, Shape*, Shape*, Shape* result, Status*);
    void (*shape_set_unknown)(ShapeContext*, Status*);

    KernelBuilder* (*new_kernel_builder)(const char* op,
                                         const char* device,
                                         void* (*create)(Construction*),
                                         void (*compute)(void*, Context*),
                                         void (*destroy)(void*));
    KernelBuilder* (*new_async_kernel_builder)(const char* op,
                                               const char* device,
                                               void* (*create)(Construction*),
                                               void (*compute)(void*, Context*, DoneCallback*),
                                               void (*destroy)(void*));
    void (*register_kernel)(const char* name, KernelBuilder*, Status*);

    StringView (*construction_name)(Construction*);
    void (*attr_size)(Construction*,
                      const char* name,
                      std::int32_t* list_size,
                      std::int32_t* total_size,
                      Status*);
    void (*attr_string)(Construction*, const char* name, char* value, std::size_t room, Status*);
    void (*attr_int64)(Construction*, const char* name, std::int64_t* value, Status*);
    void (*attr_bool)(Construction*, const char* name, unsigned char* value, Status*);
    void (*construction_failure)(Construction*, Status*);

    int (*num_inputs)(Context*);
    void (*get_input)(Context*, int index, Tensor**, Status*);
    Tensor* (*allocate_output)(Context*,
                               int index,
                               DataType,
                               const std::int64_t* dims,
                               int num_dims,
                               std::size_t bytes,
                               Status*);
    Tensor* (*forward_input_or_allocate_output)(Context*,
                                                const int* candidates,
                                                int num_candidates,
                                                int index,
                                                const std::int64_t* dims,
                                                int num_dims,
                                                int* forwarded,
                                                Status*);
    void (*set_output)(Context*, int index, const Tensor*, Status*);
    void (*context_failure)(Context*, Status*);
    std::int64_t (*iteration)(Context*);

    Tensor* (*new_tensor)(DataType,
                          const std::int64_t* dims,
                          int num_dims,
                          void* data,
                          std::size_t bytes,
                          void (*deallocate)(void* data, std::size_t bytes, void* argument),
                          void* argument);
    void (*delete_tensor)(Tensor*);
    DataType (*tensor_type)(const Tensor*);
    int (*num_dims)(const Tensor*);
    std::int64_t (*dim)(const Tensor*, int index);
    std::size_t (*tensor_bytes)(const Tensor*);
    void* (*tensor_data)(const Tensor*);
};

/// The error of every op before hvd.init(), in the original's words, which scripts look for.
inline constexpr const char* kNotInitialized = "Horovod has not been initialized; use hvd.init().";

/// Fills the table once, from the libraries that TensorFlow loaded. Returns "" or what is missing.
std::string load();

/// The table; only after load() has returned "".
const Api& api();

struct StatusDeleter {
    void operator()(Status* status) const { api().delete_status(status); }
};
struct TensorDeleter {
    void operator()(Tensor* tensor) const { api().delete_tensor(tensor); }
};
struct ShapeDeleter {
    void operator()(Shape* shape) const { api().delete_shape(shape); }
};
using StatusPtr = std::unique_ptr<Status, StatusDeleter>;
using TensorPtr = std::unique_ptr<Tensor, TensorDeleter>;
using ShapePtr = std::unique_ptr<Shape, ShapeDeleter>;

inline StatusPtr make_status() {
    return StatusPtr(api().new_status());
}
inline bool is_ok(const StatusPtr& status) {
    return api().get_code(status.get()) == Code::ok;
}

}  // namespace hvd::tf
