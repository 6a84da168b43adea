// SPDX-License-Identifier: Apache-2.0
#include "runtime/tensorflow/flight.hpp"

#include <exception>
#include <optional>
#include <utility>

namespace hvd::tf {
namespace {

// The last input of every collective op is not a tensor of ours: see ops.cpp, "live".
int tensors_of(Context* context) {
    return api().num_inputs(context) - 1;
}

std::optional<hvd_dtype> to_hvd(DataType type) {
    switch (type) {
        case DataType::boolean: return HVD_BOOL;
        case DataType::uint8: return HVD_UINT8;
        case DataType::int8: return HVD_INT8;
        case DataType::uint16: return HVD_UINT16;
        case DataType::int16: return HVD_INT16;
        case DataType::uint32: return HVD_UINT32;
        case DataType::int32: return HVD_INT32;
        case DataType::uint64: return HVD_UINT64;
        case DataType::int64: return HVD_INT64;
        case DataType::float16: return HVD_FLOAT16;
        case DataType::bfloat16: return HVD_BFLOAT16;
        case DataType::float32: return HVD_FLOAT32;
        case DataType::float64: return HVD_FLOAT64;
    }
    return std::nullopt;  // a number that TensorFlow knows and we do not
}

Code to_tf(hvd_status status) {
    switch (status) {
        case HVD_OK: return Code::ok;
        case HVD_INVALID_ARGUMENT: return Code::invalid_argument;
        case HVD_TIMED_OUT: return Code::deadline_exceeded;
        // Not "unavailable": in graphs TensorFlow makes an internal error of that.
        case HVD_UNAVAILABLE:
        case HVD_ABORTED: return Code::aborted;
        case HVD_MISMATCH: return Code::failed_precondition;
        case HVD_UNSUPPORTED: return Code::unimplemented;
        case HVD_IN_PROGRESS:
        case HVD_INTERNAL: break;
    }
    return Code::internal;
}

// The first word tells a failure of ours from one of TensorFlow's with the same code.
void set_failure(Status* status, hvd_status failure, const std::string& message) {
    api().set_status(status, to_tf(failure), ("Horovod: " + message).c_str());
}

hvd_tensor describe(const TensorPtr& tensor,
                    hvd_dtype dtype,
                    const std::vector<std::int64_t>& shape) {
    hvd_tensor described{};
    described.struct_size = sizeof(hvd_tensor);
    described.data = api().tensor_data(tensor.get());
    described.shape = shape.data();
    described.ndim = static_cast<std::int32_t>(shape.size());
    described.dtype = dtype;
    described.device_type = HVD_HOST;
    return described;
}

// One result that TensorFlow holds.
struct Lease {
    hvd_context* world;
    hvd_ticket ticket;
};

void end_lease(void* /*data*/, std::size_t /*bytes*/, void* argument) {
    const std::unique_ptr<Lease> lease(static_cast<Lease*>(argument));
    hvd_release(lease->world, lease->ticket);
}

std::size_t element_bytes(std::int32_t dtype) {
    switch (dtype) {
        case HVD_UINT16:
        case HVD_INT16:
        case HVD_FLOAT16:
        case HVD_BFLOAT16: return 2;
        case HVD_UINT32:
        case HVD_INT32:
        case HVD_FLOAT32: return 4;
        case HVD_UINT64:
        case HVD_INT64:
        case HVD_FLOAT64: return 8;
        default: return 1;
    }
}

}  // namespace

Flight::Flight(hvd_op op, Context* context, DoneCallback done)
    : op_(op),
      context_(context),
      done_(std::move(done)),
      world_(hvd_current()),
      slots_(static_cast<std::size_t>(tensors_of(context))),
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
        if (!prepare_slot(slots_[i], static_cast<int>(i), status)) {
            return false;
        }
    }
    return true;
}

bool Flight::prepare_slot(Slot& slot, int index, Status* status) {
    if (!read_input(slot, index, status)) {
        return false;
    }
    const DataType type = api().tensor_type(slot.input.get());
    const std::optional<hvd_dtype> dtype = to_hvd(type);
    if (!dtype) {
        const std::string what = slot.name + ": tensors of TensorFlow's data type number " +
                                 std::to_string(static_cast<int>(type)) + " cannot be exchanged";
        api().set_status(status, Code::invalid_argument, what.c_str());
        return false;
    }
    if (op_ == HVD_ALLGATHER) {
        if (slot.shape.empty()) {
            const std::string what = slot.name +
                                     ": allgather of a scalar; give it a dimension to "
                                     "gather along, as in tf.expand_dims(tensor, 0)";
            api().set_status(status, Code::failed_precondition, what.c_str());
            return false;
        }
    } else {
        // Where nobody else holds the input's buffer it becomes the output's, and the operation
        // works in place. Our own hold on it has to end for that.
        slot.input.reset();
        if (!make_output(slot, index, status) || !read_input(slot, index, status)) {
            return false;
        }
        slot.out = describe(slot.output, *dtype, slot.shape);
    }
    slot.in = describe(slot.input, *dtype, slot.shape);
    return true;
}

bool Flight::read_input(Slot& slot, int index, Status* status) {
    Tensor* input = nullptr;
    api().get_input(context_, index, &input, status);
    if (api().get_code(status) != Code::ok) {
        return false;
    }
    slot.input.reset(input);
    slot.shape.resize(static_cast<std::size_t>(api().num_dims(input)));
    for (std::size_t d = 0; d < slot.shape.size(); ++d) {
        slot.shape[d] = api().dim(input, static_cast<int>(d));
    }
    return true;
}

bool Flight::make_output(Slot& slot, int index, Status* status) {
    int forwarded = -1;
    slot.output.reset(api().forward_input_or_allocate_output(
        context_, &index, 1, index, slot.shape.data(), static_cast<int>(slot.shape.size()),
        &forwarded, status));
    return api().get_code(status) == Code::ok;
}

void Flight::submit(const Settings& settings) {
    const std::size_t count = slots_.size();
    std::vector<hvd_request> requests(count);
    std::vector<hvd_ticket> tickets(count);
    for (std::size_t i = 0; i < count; ++i) {
        hvd_request& request = requests[i];
        request.struct_size = sizeof(hvd_request);
        request.name = slots_[i].name.c_str();
        request.in = &slots_[i].in;
        request.out = slots_[i].output ? &slots_[i].out : nullptr;
        request.prescale = settings.prescale;
        request.postscale = settings.postscale;
        request.group = count > 1 ? 1 : 0;
        request.op = op_;
        request.reduce_op = static_cast<std::int32_t>(settings.reduce_op);
        request.root = static_cast<std::int32_t>(settings.root);
        request.process_set = static_cast<std::int32_t>(settings.process_set);
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

// The result's memory is the engine's: TensorFlow gets it as it is and gives the ticket back when
// the last user of the tensor has gone.
void Flight::set_result(Slot& slot, int index, Status* status) {
    hvd_tensor result{};
    result.struct_size = sizeof(hvd_tensor);
    if (const hvd_status found = hvd_result(world_, slot.ticket, &result); found != HVD_OK) {
        set_failure(status, found, hvd_last_error());
        return;
    }
    const std::vector<std::int64_t> shape(result.shape, result.shape + result.ndim);
    std::size_t bytes = element_bytes(slot.in.dtype);
    for (const std::int64_t extent : shape) {
        bytes *= static_cast<std::size_t>(extent);
    }
    auto* lease = new Lease{world_, std::exchange(slot.ticket, 0)};
    const TensorPtr output(api().new_tensor(api().tensor_type(slot.input.get()), shape.data(),
                                            result.ndim, result.data, bytes, end_lease, lease));
    api().set_output(context_, index, output.get(), status);
}

void Flight::finish() {
    const StatusPtr status = make_status();
    for (std::size_t i = 0; i < slots_.size() && is_ok(status); ++i) {
        Slot& slot = slots_[i];
        if (slot.status != HVD_OK) {
            set_failure(status.get(), slot.status, slot.message);
        } else if (op_ == HVD_ALLGATHER) {
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
