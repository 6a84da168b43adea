// SPDX-License-Identifier: Apache-2.0
//
// One execution of a collective op, from the call of its kernel to TensorFlow's done callback.
#pragma once

#include "runtime/include/hvd/hvd.h"
#include "runtime/tensorflow/settings.hpp"
#include "runtime/tensorflow/tf_api.hpp"

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace hvd::tf {

/// Keeps inputs and outputs alive while the engine reads and writes them. It belongs to itself: the
/// last completed ticket ends it.
///
/// Thread: built on a thread of TensorFlow's; finished there or on the engine's.
class Flight final {
public:
    /// Submits all inputs of `context` as one call. `done` runs exactly once, failure included.
    static void start(hvd_op op, const Settings& settings, Context* context, DoneCallback done);

    Flight(const Flight&) = delete;
    Flight& operator=(const Flight&) = delete;

private:
    // One tensor of the group; the join has one without tensors. Written by its own completion
    // only, read after all have completed.
    struct Slot {
        Flight* flight = nullptr;
        TensorPtr input;
        TensorPtr output;  // empty where the library allocates the result
        DataType type = DataType::int32;
        std::vector<std::int64_t> shape;
        std::string name;
        hvd_tensor in{};
        hvd_tensor out{};
        hvd_ticket ticket = 0;
        hvd_status status = HVD_OK;
        std::string message;
    };

    Flight(hvd_op op, Context* context, DoneCallback done);
    ~Flight() = default;

    bool prepare(const Settings& settings, Status* status);
    bool prepare_slot(Slot& slot, int index, Status* status);
    bool read_input(Slot& slot, int index, Status* status);
    bool make_output(Slot& slot, int index, Status* status);
    bool read_splits(Status* status);
    hvd_request request_of(const Slot& slot, const Settings& settings) const;
    void submit(const Settings& settings);
    void set_result(Slot& slot, int index, Status* status);
    void set_received_splits(const Slot& slot, Status* status);
    void finish();
    void end(const StatusPtr& status);
    static void completed(void* slot, hvd_status status, const char* message);

    hvd_op op_;
    Context* context_;
    DoneCallback done_;
    hvd_context* world_;
    std::vector<Slot> slots_;
    std::vector<std::int64_t> splits_;  // of an alltoall; empty: equal shares
    std::atomic<std::size_t> pending_;
};

}  // namespace hvd::tf
