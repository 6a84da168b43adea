// SPDX-License-Identifier: Apache-2.0
#include "runtime/tensorflow/tf_api.hpp"

#include <string_view>
#include <vector>

#include <dlfcn.h>
#include <link.h>

namespace hvd::tf {
namespace {

// The loader's own table: written by load() in the library's constructor, read afterwards.
Api& table() {
    static Api functions{};
    return functions;
}

// Python loads TensorFlow with RTLD_LOCAL, so RTLD_DEFAULT does not see it: its libraries are found
// among those the process has loaded, by file name.
int collect(dl_phdr_info* info, std::size_t /*size*/, void* argument) {
    const std::string_view path = info->dlpi_name == nullptr ? "" : info->dlpi_name;
    const std::string_view file = path.substr(path.rfind('/') + 1);
    if (file.starts_with("libtensorflow_framework.so") || file.starts_with("libtensorflow_cc.so")) {
        static_cast<std::vector<std::string>*>(argument)->emplace_back(path);
    }
    return 0;
}

class Libraries final {
public:
    Libraries() {
        std::vector<std::string> paths;
        dl_iterate_phdr(collect, &paths);
        for (const std::string& path : paths) {
            // Never closed: the functions stay in use until the process ends.
            if (void* handle = dlopen(path.c_str(), RTLD_LAZY | RTLD_NOLOAD); handle != nullptr) {
                handles_.push_back(handle);
            }
        }
    }

    [[nodiscard]] bool empty() const { return handles_.empty(); }
    [[nodiscard]] const std::string& missing() const { return missing_; }

    template <typename Function>
    void find(const char* name, Function& function) {
        for (void* handle : handles_) {
            if (void* symbol = dlsym(handle, name); symbol != nullptr) {
                function = reinterpret_cast<Function>(symbol);
                return;
            }
        }
        missing_ += missing_.empty() ? "" : ", ";
        missing_ += name;
    }

private:
    std::vector<void*> handles_;
    std::string missing_;
};

void find_definitions(Libraries& libraries, Api& t) {
    libraries.find("TF_NewStatus", t.new_status);
    libraries.find("TF_DeleteStatus", t.delete_status);
    libraries.find("TF_SetStatus", t.set_status);
    libraries.find("TF_GetCode", t.get_code);
    libraries.find("TF_Message", t.message);
    libraries.find("TF_NewOpDefinitionBuilder", t.new_op_definition_builder);
    libraries.find("TF_OpDefinitionBuilderAddAttr", t.op_add_attr);
    libraries.find("TF_OpDefinitionBuilderAddInput", t.op_add_input);
    libraries.find("TF_OpDefinitionBuilderAddOutput", t.op_add_output);
    libraries.find("TF_OpDefinitionBuilderSetIsStateful", t.op_set_stateful);
    libraries.find("TF_OpDefinitionBuilderSetShapeInferenceFunction", t.op_set_shape_function);
    libraries.find("TF_RegisterOpDefinition", t.register_op);
    libraries.find("TF_ShapeInferenceContextNumInputs", t.shape_num_inputs);
    libraries.find("TF_NewShapeHandle", t.new_shape);
    libraries.find("TF_DeleteShapeHandle", t.delete_shape);
    libraries.find("TF_ShapeInferenceContextGetInput", t.shape_get_input);
    libraries.find("TF_ShapeInferenceContextSetOutput", t.shape_set_output);
    libraries.find("TF_ShapeInferenceContextScalar", t.shape_scalar);
    libraries.find("TF_ShapeInferenceContextVectorFromSize", t.shape_vector);
    libraries.find("TF_ShapeInferenceContextRankKnown", t.shape_rank_known);
    libraries.find("TF_ShapeInferenceContextRank", t.shape_rank);
    libraries.find("TF_ShapeInferenceContextSubshape", t.shape_subshape);
    libraries.find("TF_ShapeInferenceContextConcatenateShapes", t.shape_concatenate);
    libraries.find("TF_ShapeInferenceContextSetUnknownShape", t.shape_set_unknown);
}

void find_kernels(Libraries& libraries, Api& t) {
    libraries.find("TF_NewKernelBuilder", t.new_kernel_builder);
    libraries.find("TF_NewAsyncKernelBuilder", t.new_async_kernel_builder);
    libraries.find("TF_RegisterKernelBuilder", t.register_kernel);
    libraries.find("TF_OpKernelConstruction_GetName", t.construction_name);
    libraries.find("TF_OpKernelConstruction_GetAttrSize", t.attr_size);
    libraries.find("TF_OpKernelConstruction_GetAttrString", t.attr_string);
    libraries.find("TF_OpKernelConstruction_GetAttrInt64", t.attr_int64);
    libraries.find("TF_OpKernelConstruction_GetAttrBool", t.attr_bool);
    libraries.find("TF_OpKernelConstruction_Failure", t.construction_failure);
    libraries.find("TF_NumInputs", t.num_inputs);
    libraries.find("TF_GetInput", t.get_input);
    libraries.find("TF_AllocateOutput", t.allocate_output);
    libraries.find("TF_ForwardInputOrAllocateOutput", t.forward_input_or_allocate_output);
    libraries.find("TF_SetOutput", t.set_output);
    libraries.find("TF_OpKernelContext_Failure", t.context_failure);
    libraries.find("TF_GetIterId", t.iteration);
    libraries.find("TF_NewTensor", t.new_tensor);
    libraries.find("TF_DeleteTensor", t.delete_tensor);
    libraries.find("TF_TensorType", t.tensor_type);
    libraries.find("TF_NumDims", t.num_dims);
    libraries.find("TF_Dim", t.dim);
    libraries.find("TF_TensorByteSize", t.tensor_bytes);
    libraries.find("TF_TensorData", t.tensor_data);
}

}  // namespace

std::string load() {
    Libraries libraries;
    if (libraries.empty()) {
        return "libhorovod_tf.so: TensorFlow is not loaded in this process; import tensorflow "
               "first";
    }
    find_definitions(libraries, table());
    find_kernels(libraries, table());
    if (!libraries.missing().empty()) {
        return "libhorovod_tf.so: this TensorFlow lacks " + libraries.missing() +
               "; asynchronous kernels through the C API need TensorFlow 2.16 or newer";
    }
    return "";
}

const Api& api() {
    return table();
}

}  // namespace hvd::tf
