// SPDX-License-Identifier: Apache-2.0
#include "runtime/tensorflow/flight.hpp"

#include "runtime/tensorflow/conversion.hpp"

#include <exception>
#include <limits>
#include <optional>
#include <utility>

namespace hvd::tf {
namespace {

// An alltoall has the inputs tensor, splits and live, and the outputs output and received_splits.
constexpr int kSplits = 1;
constexpr int kReceivedSplits = 1;

// The last input of every collective op is no tensor of the collective: see ops.cpp, "live".
std::size_t slots_of(hvd_op op, Context* context) {
    if (op == HVD_ALLTOALL || op == HVD_JOIN) {
        return 1;
    }
    return static_cast<std::size_t>(api().num_inputs(context) - 1);
}

bool has_result_of_the_library(hvd_op op) {
    return op == HVD_ALLGATHER || op == HVD_ALLTOALL || op == HVD_REDUCESCATTER || op == HVD_JOIN;
}

// The refusal of a scalar by an operation along the first dimension; NULL for other operations.
const char* refusal_of_scalar(hvd_op op) {
    switch (op) {
        case HVD_ALLGATHER: return "allgather of a scalar; give it a dimension to gather along";
        case HVD_ALLTOALL: return "alltoall of a scalar; give it a dimension to split along";
        case HVD_REDUCESCATTER:
            return "reducescatter of a scalar; give it a dimension to scatter along";
        case HVD_ALLREDUCE:
        case HVD_BROADCAST:
        case HVD_BARRIER:
        case HVD_JOIN: break;
    }
    return nullptr;
}

}  // namespace

Flight::Flight(hvd_op op, Context* context, DoneCallback done)
    : op_(op),
      context_(context),
      done_(std::move(done)),
      world_(hvd_current()),
      slots_(slots_of(op, context)),
      pending_(slots_.size()) {}

void Flight::start(hvd_op op, const Settings& settings, Context* context, DoneCallback done) {
    auto* flight = new Flight(op, context, std::move(done));
    const StatusPtr status = make_status();
    // This is a root of the thread for us: TensorFlow is built without exceptions.
    try {
        if (!flight->prepare(settings, status.get())) {
            flight->end(status);
        } else if (flight->slots_.empty()) {
            flight->finish();
        } else {
            flight->submit(settings);
        }
    } catch (const std::exception& error) {
        api().set_status(status.get(), Code::internal, error.what());
        flight->end(status);
    }
}

bool Flight::prepare(const Settings& settings, Status* status) {
    if (world_ == nullptr) {
        api().set_status(status, Code::failed_precondition, kNotInitialized);
        return false;
    }
    const std::int64_t iteration = api().iteration(context_);
    for (std::size_t i = 0; i < slots_.size(); ++i) {
        slots_[i].flight = this;
        slots_[i].name = request_name(settings, iteration, i, slots_.size());
        if (op_ != HVD_JOIN && !prepare_slot(slots_[i], static_cast<int>(i), status)) {
            return false;
        }
    }
    return op_ != HVD_ALLTOALL || read_splits(status);
}

bool Flight::prepare_slot(Slot& slot, int index, Status* status) {
    if (!read_input(slot, index, status)) {
        return false;
    }
    slot.type = api().tensor_type(slot.input.get());
    const std::optional<hvd_dtype> dtype = to_hvd(slot.type);
    if (!dtype) {
        const std::string what = slot.name + ": tensors of TensorFlow's data type number " +
                                 std::to_string(static_cast<int>(slot.type)) +
                                 " cannot be exchanged";
        api().set_status(status, Code::invalid_argument, what.c_str());
        return false;
    }
    const char* const refusal = refusal_of_scalar(op_);
    if (refusal != nullptr && slot.shape.empty()) {
        const std::string what = slot.name + ": " + refusal + ", as in tf.expand_dims(tensor, 0)";
        // As in the original, whose coordinator refuses the others.
        const Code code =
            op_ == HVD_REDUCESCATTER ? Code::invalid_argument : Code::failed_precondition;
        api().set_status(status, code, what.c_str());
        return false;
    }
    if (!has_result_of_the_library(op_)) {
        // Where nobody else holds the input's buffer it becomes the output's, and the operation
        // works in place. Our own hold on it has to end for that.
        slot.input.reset();
        if (!make_output(slot, index, status) || !read_input(slot, index, status)) {
            return false;
        }
        slot.out = describe(slot.output.get(), *dtype, slot.shape);
    }
    slot.in = describe(slot.input.get(), *dtype, slot.shape);
    return true;
}

bool Flight::read_input(Slot& slot, int index, Status* status) {
    Tensor* input = nullptr;
    api().get_input(context_, index, &input, status);
    if (api().get_code(status) != Code::ok) {
        return false;
    }
    slot.input.reset(input);
    slot.shape = shape_of(input);
    return true;
}

bool Flight::make_output(Slot& slot, int index, Status* status) {
    int forwarded = -1;
    slot.output.reset(api().forward_input_or_allocate_output(
        context_, &index, 1, index, slot.shape.data(), static_cast<int>(slot.shape.size()),
        &forwarded, status));
    return api().get_code(status) == Code::ok;
}

bool Flight::read_splits(Status* status) {
    Tensor* input = nullptr;
    api().get_input(context_, kSplits, &input, status);
    if (api().get_code(status) != Code::ok) {
        return false;
    }
    const TensorPtr splits(input);
    const std::vector<std::int64_t> shape = shape_of(input);
    if (shape.size() != 1) {
        const std::string what = slots_[0].name + ": splits have " + std::to_string(shape.size()) +
                                 " dimensions; they are a list of one number for each rank";
        api().set_status(status, Code::invalid_argument, what.c_str());
        return false;
    }
    const auto* const values = static_cast<const std::int32_t*>(api().tensor_data(input));
    splits_.assign(values, values + shape[0]);
    return true;
}

hvd_request Flight::request_of(const Slot& slot, const Settings& settings) const {
    hvd_request request{};
    request.struct_size = sizeof(hvd_request);
    request.name = slot.name.c_str();
    request.in = slot.input ? &slot.in : nullptr;
    request.out = slot.output ? &slot.out : nullptr;
    request.prescale = settings.prescale;
    request.postscale = settings.postscale;
    request.group = slots_.size() > 1 ? 1 : 0;
    request.op = op_;
    request.reduce_op = static_cast<std::int32_t>(settings.reduce_op);
    request.root = static_cast<std::int32_t>(settings.root);
    request.process_set = static_cast<std::int32_t>(settings.process_set);
    request.splits = splits_.empty() ? nullptr : splits_.data();
    request.split_count = splits_.size();
    return request;
}

void Flight::submit(const Settings& settings) {
    const std::size_t count = slots_.size();
    std::vector<hvd_request> requests;
    std::vector<hvd_ticket> tickets(count);
    requests.reserve(count);
    for (const Slot& slot : slots_) {
        requests.push_back(request_of(slot, settings));
    }
    const hvd_status submitted = hvd_submit(world_, requests.data(), count, tickets.data());
    if (submitted != HVD_OK) {
        const StatusPtr status = make_status();
        set_failure(status.get(), submitted, hvd_last_error());
        end(status);
        return;
    }
    for (std::size_t i = 0; i < count; ++i) {
        slots_[i].ticket = tickets[i];
    }
    // From the last registration on, this flight may be gone: only locals are used.
    hvd_context* const world = world_;
    Slot* const first = slots_.data();
    for (std::size_t i = 0; i < count; ++i) {
        const hvd_status registered = hvd_on_complete(world, tickets[i], completed, first + i);
        if (registered != HVD_OK) {
            completed(first + i, registered, hvd_last_error());
        }
    }
}

void Flight::completed(void* slot, hvd_status status, const char* message) {
    Slot& own = *static_cast<Slot*>(slot);
    own.status = status;
    if (status != HVD_OK) {
        own.message = message;
    }
    Flight* const flight = own.flight;
    if (flight->pending_.fetch_sub(1, std::memory_order_acq_rel) == 1) {
        flight->finish();
    }
}

void Flight::set_result(Slot& slot, int index, Status* status) {
    if (op_ == HVD_ALLTOALL) {
        set_received_splits(slot, status);
        if (api().get_code(status) != Code::ok) {
            return;
        }
    }
    const TensorPtr output = hand_over(world_, slot.ticket, slot.type, status);
    if (output) {
        slot.ticket = 0;  // the tensor's last user releases it
        api().set_output(context_, index, output.get(), status);
    }
}

void Flight::set_received_splits(const Slot& slot, Status* status) {
    const std::int64_t* received = nullptr;
    std::size_t count = 0;
    const hvd_status found = hvd_received_splits(world_, slot.ticket, &received, &count);
    if (found != HVD_OK) {
        set_failure(status, found, hvd_last_error());
        return;
    }
    const auto extent = static_cast<std::int64_t>(count);
    const TensorPtr output(api().allocate_output(context_, kReceivedSplits, DataType::int32,
                                                 &extent, 1, count * sizeof(std::int32_t), status));
    if (api().get_code(status) != Code::ok) {
        return;
    }
    auto* const values = static_cast<std::int32_t*>(api().tensor_data(output.get()));
    for (std::size_t i = 0; i < count; ++i) {
        if (received[i] > std::numeric_limits<std::int32_t>::max()) {
            const std::string what = slot.name + ": " + std::to_string(received[i]) +
                                     " rows from one rank do not fit received_splits (int32)";
            api().set_status(status, Code::invalid_argument, what.c_str());
            return;
        }
        values[i] = static_cast<std::int32_t>(received[i]);
    }
}

void Flight::finish() {
    const StatusPtr status = make_status();
    for (std::size_t i = 0; i < slots_.size() && is_ok(status); ++i) {
        Slot& slot = slots_[i];
        if (slot.status != HVD_OK) {
            set_failure(status.get(), slot.status, slot.message);
        } else if (has_result_of_the_library(op_)) {
            set_result(slot, static_cast<int>(i), status.get());
        }
    }
    end(status);
}

void Flight::end(const StatusPtr& status) {
    if (!is_ok(status)) {
        api().context_failure(context_, status.get());
    }
    for (const Slot& slot : slots_) {
        if (slot.ticket != 0) {
            hvd_release(world_, slot.ticket);
        }
    }
    const DoneCallback done = std::move(done_);
    delete this;
    done();  // after it, the context is gone
}

}  // namespace hvd::tf
