// SPDX-License-Identifier: Apache-2.0
//
// A value on a GPU, operations that must fail, and joins: for cases of abi_worker.
#pragma once

#include "runtime/include/hvd/hvd.hpp"
#include "tests/integration/engine/abi_worker.hpp"
#include "tests/integration/engine/gpu_framework.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace hvd::test {

inline constexpr std::int64_t kLimitMs = 20'000;  // of a wait that must end by itself

/// One float on the GPU.
class Value {
public:
    Value(const Framework& framework, float value)
        : framework_(framework), mine_{value}, memory_(framework.make(1)) {
        framework.write(memory_, mine_);
    }
    Value(const Value&) = delete;
    Value& operator=(const Value&) = delete;
    ~Value() { framework_.free(memory_); }

    [[nodiscard]] hvd_request sum() const { return request_of(HVD_ALLREDUCE, rows_, &rows_); }

private:
    const Framework& framework_;
    std::vector<float> mine_;
    CUdeviceptr memory_;
    Rows rows_{memory_, 1, framework_};
};

/// Runs the request, and wants it to fail with a message that has `words`.
inline void require_failure(hvd_context* context,
                            const hvd_request& request,
                            hvd_status expected,
                            const std::vector<std::string>& words) {
    hvd_ticket ticket = 0;
    const auto status = hvd_run(context, &request, 1, &ticket, kLimitMs);
    const std::string message = hvd_last_error();
    require(status == expected, "status " + std::to_string(status));
    for (const auto& word : words) {
        require(message.find(word) != std::string::npos, "'" + word + "' in '" + message + "'");
    }
    // A request that is refused gets no ticket.
    require(ticket == 0 || hvd_release(context, ticket) == HVD_OK, "releasing");
}

inline hvd_request join_of(const hvd_tensor* place) {
    hvd_request request{};
    request.struct_size = sizeof request;
    request.name = "join";
    request.in = place;
    request.prescale = 1;
    request.postscale = 1;
    request.op = HVD_JOIN;
    return request;
}

inline hvd_tensor place_of(const Framework& framework) {
    hvd_tensor place{};
    place.struct_size = sizeof place;
    place.device_type = HVD_CUDA;
    place.device_index = framework.index();
    return place;
}

inline void join(hvd_context* context, const hvd_tensor* place) {
    const auto request = join_of(place);
    hvd_ticket ticket = 0;
    require(hvd_run(context, &request, 1, &ticket, kLimitMs) == HVD_OK, "joining");
    require(hvd_release(context, ticket) == HVD_OK, "releasing");
}

}  // namespace hvd::test
