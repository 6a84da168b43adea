// SPDX-License-Identifier: Apache-2.0
//
// The arguments of calls of hvd.hpp: types, reductions and requests.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "hvd/hvd.h"

namespace hvd {

enum class ReduceOp : std::int32_t {
    average = HVD_AVERAGE,
    sum = HVD_SUM,
    min = HVD_MIN,
    max = HVD_MAX,
    product = HVD_PRODUCT,
    adasum = HVD_ADASUM,  // of floating-point numbers, by allreduce
};

/// What ReduceOp::average divides by while ranks have joined.
enum class AverageOver : std::int32_t {
    all = HVD_OVER_ALL,
    contributing = HVD_OVER_CONTRIBUTING,
};

/// The type of the numbers that travel, of a sum or an average of float or double. See hvd_request.
enum class Wire : std::int32_t {
    own = 0,  // the tensor's own
    float16 = HVD_FLOAT16,
    bfloat16 = HVD_BFLOAT16,
};

/// The ranks that run an operation: the world, or what World::add_process_set gives.
struct ProcessSet {
    std::int32_t id = 0;

    friend bool operator==(const ProcessSet&, const ProcessSet&) = default;
};

/// A GPU of this process, by the CUDA driver's number, and one of its streams: a CUstream or
/// cudaStream_t, nullptr for the default stream.
struct Gpu {
    std::int32_t index = 0;
    void* stream = nullptr;
};

/// 16-bit floating-point numbers as their bits; C++20 has no types for them.
struct Float16 {
    std::uint16_t bits;
};
struct BFloat16 {
    std::uint16_t bits;
};

/// The hvd_dtype of T, or -1.
template <class T>
[[nodiscard]] constexpr std::int32_t dtype_of() noexcept {
    using U = std::remove_cv_t<T>;
    if constexpr (std::is_same_v<U, bool>) {
        return HVD_BOOL;
    } else if constexpr (std::is_same_v<U, Float16>) {
        return HVD_FLOAT16;
    } else if constexpr (std::is_same_v<U, BFloat16>) {
        return HVD_BFLOAT16;
    } else if constexpr (std::is_same_v<U, float>) {
        return HVD_FLOAT32;
    } else if constexpr (std::is_same_v<U, double>) {
        return HVD_FLOAT64;
    } else if constexpr (std::is_integral_v<U>) {
        constexpr bool kSigned = std::is_signed_v<U>;
        switch (sizeof(U)) {
            case 1: return kSigned ? HVD_INT8 : HVD_UINT8;
            case 2: return kSigned ? HVD_INT16 : HVD_UINT16;
            case 4: return kSigned ? HVD_INT32 : HVD_UINT32;
            case 8: return kSigned ? HVD_INT64 : HVD_UINT64;
            default: return -1;
        }
    } else {
        return -1;
    }
}

template <class T>
concept Element = dtype_of<T>()
>= 0;

/// How an allreduce or a reducescatter reduces.
struct Reduction {
    ReduceOp op = ReduceOp::average;
    double prescale = 1;   // of every input
    double postscale = 1;  // of the result
    AverageOver average_over = AverageOver::all;
    Wire wire = Wire::own;
};

/// One operation for World::submit or a Plan: values that must stay valid until it has ended.
class Request {
public:
    /// The result takes the place of `data`.
    template <Element T>
    [[nodiscard]] static Request allreduce(std::string name,
                                           std::span<T> data,
                                           Reduction reduction = {}) {
        Request request(std::move(name), HVD_ALLREDUCE, data);
        request.reduce(reduction);
        return request;
    }

    /// The values of `root`, a rank of the world, take the place of everybody's.
    template <Element T>
    [[nodiscard]] static Request broadcast(std::string name, std::span<T> data, int root) {
        Request request(std::move(name), HVD_BROADCAST, data);
        request.root_ = root;
        return request;
    }

    /// The result has its own memory: World::result.
    template <Element T>
    [[nodiscard]] static Request allgather(std::string name, std::span<T> data) {
        Request request(std::move(name), HVD_ALLGATHER, data);
        request.in_place_ = false;
        return request;
    }

    /// Sends `splits[i]` elements to the i-th rank of the set, one after the other; without splits
    /// equal shares of all. The result has its own memory: Pending::result, received_splits.
    template <Element T>
    [[nodiscard]] static Request alltoall(std::string name,
                                          std::span<T> data,
                                          std::span<const std::int64_t> splits = {}) {
        Request request(std::move(name), HVD_ALLTOALL, data);
        request.in_place_ = false;
        request.splits_.assign(splits.begin(), splits.end());
        return request;
    }

    /// Every rank gets its share of the reduced elements: with r of them and n ranks, the first
    /// r % n ranks r / n + 1, the others r / n. The result has its own memory.
    template <Element T>
    [[nodiscard]] static Request reducescatter(std::string name,
                                               std::span<T> data,
                                               Reduction reduction = {}) {
        Request request(std::move(name), HVD_REDUCESCATTER, data);
        request.in_place_ = false;
        request.reduce(reduction);
        return request;
    }

    /// Takes part in what others reduce until all have joined. The result is the last that did.
    [[nodiscard]] static Request join(std::string name) {
        Request request(std::move(name), HVD_JOIN, std::span<float>());
        request.has_tensor_ = false;
        return request;
    }

    [[nodiscard]] static Request barrier(std::string name) {
        Request request(std::move(name), HVD_BARRIER, std::span<float>());
        request.has_tensor_ = false;
        return request;
    }

    /// The same among the ranks of `set`, of which this rank is one.
    [[nodiscard]] Request in(ProcessSet set) && {
        set_ = set;
        return std::move(*this);
    }

    /// `data` is memory of a GPU, and ready when the stream gets there, as of when the request is
    /// submitted or its plan started. A result that the library allocates is there too. All ranks
    /// have it on a GPU, each on another; see hvd_request.
    [[nodiscard]] Request on(Gpu gpu) && {
        gpu_ = gpu;
        return std::move(*this);
    }

    /// Calls `use` with the request as the C ABI wants it, which is valid during that call.
    template <class Use>
    static auto with_raw(std::span<const Request> requests, const Use& use) {
        std::vector<hvd_tensor> tensors(requests.size());
        std::vector<hvd_request> raw(requests.size());
        for (std::size_t index = 0; index < requests.size(); ++index) {
            const Request& from = requests[index];
            auto& tensor = tensors[index];
            tensor.struct_size = sizeof tensor;
            tensor.data = from.data_;
            tensor.shape = &from.count_;
            tensor.ndim = 1;
            tensor.dtype = from.dtype_;
            tensor.device_type = from.gpu_ ? HVD_CUDA : HVD_HOST;
            tensor.device_index = from.gpu_.value_or(Gpu{}).index;
            tensor.stream = from.gpu_.value_or(Gpu{}).stream;
            auto& request = raw[index];
            request.struct_size = sizeof request;
            request.name = from.name_.c_str();
            request.in = from.has_tensor_ ? &tensor : nullptr;
            request.out = from.in_place_ ? request.in : nullptr;
            request.prescale = from.prescale_;
            request.postscale = from.postscale_;
            request.op = from.op_;
            request.reduce_op = from.reduce_op_;
            request.root = from.root_;
            request.process_set = from.set_.id;
            request.splits = from.splits_.empty() ? nullptr : from.splits_.data();
            request.split_count = from.splits_.size();
            request.average_over = from.average_over_;
            request.wire_dtype = from.wire_;
        }
        return use(std::span<const hvd_request>(raw));
    }

private:
    template <class T>
    Request(std::string name, hvd_op op, std::span<T> data)
        : name_(std::move(name)),
          // The C type has no const; what takes const data writes nothing.
          // NOLINTNEXTLINE(cppcoreguidelines-pro-type-const-cast)
          data_(const_cast<std::remove_const_t<T>*>(data.data())),
          count_(static_cast<std::int64_t>(data.size())),
          dtype_(dtype_of<T>()),
          op_(op) {}

    void reduce(const Reduction& reduction) {
        reduce_op_ = static_cast<std::int32_t>(reduction.op);
        prescale_ = reduction.prescale;
        postscale_ = reduction.postscale;
        average_over_ = static_cast<std::int32_t>(reduction.average_over);
        wire_ = static_cast<std::int32_t>(reduction.wire);
    }

    std::string name_;
    void* data_;
    std::int64_t count_;
    std::int32_t dtype_;
    std::int32_t op_;
    std::int32_t reduce_op_ = HVD_SUM;
    std::int32_t root_ = 0;
    std::int32_t average_over_ = HVD_OVER_ALL;
    std::int32_t wire_ = 0;
    ProcessSet set_;
    std::optional<Gpu> gpu_;
    std::vector<std::int64_t> splits_;
    double prescale_ = 1;
    double postscale_ = 1;
    bool has_tensor_ = true;
    bool in_place_ = true;
};

}  // namespace hvd
