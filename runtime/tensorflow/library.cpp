// SPDX-License-Identifier: Apache-2.0
//
// Registers the ops when tf.load_op_library opens libhorovod_tf.so. TensorFlow collects the ops
// that are registered while it opens a library, so this is the one place where a constructor does
// work.
#include "runtime/tensorflow/ops.hpp"
#include "runtime/tensorflow/tf_api.hpp"

#include <string>

namespace hvd::tf {
namespace {

std::string open_library() {
    std::string failure = load();
    return failure.empty() ? register_ops() : failure;
}

const std::string& failure() {
    static const std::string text = open_library();
    return text;
}

[[gnu::constructor]] void on_load() {
    failure();
}

}  // namespace
}  // namespace hvd::tf

/// "", or why the ops are not there: a constructor cannot refuse the library that it belongs to.
extern "C" __attribute__((visibility("default"))) const char* hvd_tf_load_error();

const char* hvd_tf_load_error() {
    return hvd::tf::failure().c_str();
}
