// SPDX-License-Identifier: Apache-2.0
//
// Sums whose values are rounded to 16 bits on the way, through the C ABI.
#include "tests/integration/engine/abi_worker.hpp"
#include "tests/integration/engine/wire_checks.hpp"

#include <array>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <deque>
#include <map>
#include <numeric>
#include <string>

namespace hvd::test {
namespace {

// Added to every input: too little for a half to keep it beside numbers from 1 on.
constexpr double kLost = 0x1p-12;

constexpr std::size_t size_of(std::int32_t dtype) {
    return dtype == HVD_FLOAT64 ? sizeof(double) : sizeof(float);
}

double plain_input(int rank, std::size_t index) {
    return static_cast<double>(index % 7) + 1 + rank;
}

/// A tensor at the place, of rows of `columns` elements each.
struct Tensor {
    Tensor(Place& where,
           std::int32_t dtype,
           const std::vector<double>& values,
           std::int64_t columns)
        : place(where), shape{static_cast<std::int64_t>(values.size()) / columns, columns} {
        std::vector<std::byte> content(values.size() * size_of(dtype));
        for (std::size_t index = 0; index < values.size(); ++index) {
            const auto narrow = static_cast<float>(values[index]);
            const void* const from =
                dtype == HVD_FLOAT64 ? static_cast<const void*>(&values[index]) : &narrow;
            std::memcpy(content.data() + index * size_of(dtype), from, size_of(dtype));
        }
        raw.struct_size = sizeof raw;
        raw.shape = shape.data();
        raw.ndim = 2;
        raw.dtype = dtype;
        place.put(content, raw);
    }
    Tensor(const Tensor&) = delete;
    Tensor& operator=(const Tensor&) = delete;
    ~Tensor() = default;

    Place& place;
    std::array<std::int64_t, 2> shape;
    hvd_tensor raw{};
};

std::vector<double> values_of(Place& place, const hvd_tensor& tensor) {
    std::size_t count = 1;
    for (std::int32_t index = 0; index < tensor.ndim; ++index) {
        count *= static_cast<std::size_t>(tensor.shape[index]);
    }
    const auto content = place.read(tensor, count * size_of(tensor.dtype));
    std::vector<double> values(count);
    for (std::size_t index = 0; index < count; ++index) {
        if (tensor.dtype == HVD_FLOAT64) {
            std::memcpy(&values[index], content.data() + index * sizeof(double), sizeof(double));
        } else {
            float narrow = 0;
            std::memcpy(&narrow, content.data() + index * sizeof(float), sizeof(float));
            values[index] = narrow;
        }
    }
    return values;
}

struct Sum {
    std::string name = "x";
    std::int32_t op = HVD_ALLREDUCE;
    std::int32_t dtype = HVD_FLOAT32;
    std::int32_t wire = HVD_FLOAT16;
    std::int32_t reduce = HVD_SUM;
    double prescale = 1;
    double postscale = 1;
    std::int64_t rows = 5;
    std::int64_t columns = 1;
    enum class Result { in_place, beside, by_library } result = Result::in_place;
    ProcessSet set{};
    int ranks = 0;  // that contribute, from 0 on
    int size = 0;   // of the set
};

/// One rank's side of a sum.
class Side {
public:
    Side(World& world, Place& place, Sum sum) : sum_(std::move(sum)) {
        sum_.ranks = sum_.ranks == 0 ? world.size() : sum_.ranks;
        sum_.size = sum_.size == 0 ? sum_.ranks : sum_.size;
        std::vector<double> inputs(static_cast<std::size_t>(sum_.rows * sum_.columns));
        for (std::size_t index = 0; index < inputs.size(); ++index) {
            inputs[index] = plain_input(world.rank(), index) + kLost;
        }
        in_ = &tensors_.emplace_back(place, sum_.dtype, inputs, sum_.columns).raw;
        find_share(world);
        request.struct_size = sizeof request;
        request.name = sum_.name.c_str();
        request.in = in_;
        request.prescale = sum_.prescale;
        request.postscale = sum_.postscale;
        request.op = sum_.op;
        request.reduce_op = sum_.reduce;
        request.process_set = sum_.set.id;
        request.wire_dtype = sum_.wire;
        if (sum_.result == Sum::Result::in_place) {
            request.out = in_;
        } else if (sum_.result == Sum::Result::beside) {
            const std::vector<double> empty(static_cast<std::size_t>(rows_ * sum_.columns), -1);
            request.out = &tensors_.emplace_back(place, sum_.dtype, empty, sum_.columns).raw;
        }
    }
    Side(const Side&) = delete;
    Side& operator=(const Side&) = delete;
    ~Side() = default;

    void check(Place& place, const hvd_tensor& result) const {
        const auto values = values_of(place, result);
        require(values.size() == static_cast<std::size_t>(rows_ * sum_.columns),
                sum_.name + ": how many results");
        const auto before = static_cast<std::size_t>(first_row_ * sum_.columns);
        for (std::size_t index = 0; index < values.size(); ++index) {
            const auto wanted = sum_.dtype == HVD_FLOAT64
                                    ? wanted_of<double>(before + index)
                                    : static_cast<double>(wanted_of<float>(before + index));
            require(values[index] == wanted, sum_.name + "[" + std::to_string(index) + "] is " +
                                                 std::to_string(values[index]) + ", not " +
                                                 std::to_string(wanted));
        }
    }

    hvd_request request{};

private:
    void find_share(const World& world) {
        rows_ = sum_.rows;
        if (sum_.op == HVD_REDUCESCATTER) {
            const auto rest = sum_.rows % sum_.size;
            rows_ = sum_.rows / sum_.size + (world.rank() < rest ? 1 : 0);
            first_row_ =
                sum_.rows / sum_.size * world.rank() + std::min<std::int64_t>(world.rank(), rest);
        }
    }

    /// Halves hold the inputs without what is lost, and their sums.
    template <class T>
    [[nodiscard]] T wanted_of(std::size_t index) const {
        double sum = 0;
        for (int rank = 0; rank < sum_.ranks; ++rank) {
            sum += (plain_input(rank, index) + (sum_.wire == 0 ? kLost : 0)) * sum_.prescale;
        }
        const auto divisor = static_cast<T>(sum_.reduce == HVD_AVERAGE ? sum_.size : 1);
        return static_cast<T>(sum) / divisor * static_cast<T>(sum_.postscale);
    }

    Sum sum_;
    std::deque<Tensor> tensors_;
    const hvd_tensor* in_ = nullptr;
    std::int64_t rows_ = 0;       // of this rank's result
    std::int64_t first_row_ = 0;  // of it
};

/// Runs the requests in one call and checks their results.
void run(World& world, Place& place, const std::deque<Side>& sides) {
    std::vector<hvd_request> requests;
    for (const auto& side : sides) {
        requests.push_back(side.request);
    }
    std::vector<hvd_ticket> tickets(requests.size());
    require(hvd_run(world.context(), requests.data(), requests.size(), tickets.data(), 20'000) ==
                HVD_OK,
            "running " + std::string(requests.front().name));
    for (std::size_t index = 0; index < sides.size(); ++index) {
        require(hvd_wait(world.context(), tickets[index], 20'000) == HVD_OK, "waiting");
        hvd_tensor result{};
        result.struct_size = sizeof result;
        require(hvd_result(world.context(), tickets[index], &result) == HVD_OK, "the result");
        sides[index].check(place, result);
        require(hvd_release(world.context(), tickets[index]) == HVD_OK, "releasing");
    }
}

void run_one(World& world, Place& place, const Sum& sum) {
    std::deque<Side> sides;
    sides.emplace_back(world, place, sum);
    run(world, place, sides);
}

constexpr std::array kWires{HVD_FLOAT16, HVD_BFLOAT16};

void check_every_kind(World& world, Place& place) {
    using enum Sum::Result;
    for (const auto wire : kWires) {
        for (const auto dtype : {HVD_FLOAT32, HVD_FLOAT64}) {
            for (const auto reduce : {HVD_SUM, HVD_AVERAGE}) {
                const Sum sum{.dtype = dtype, .wire = wire, .reduce = reduce};
                for (const auto result : {in_place, beside, by_library}) {
                    for (const std::int64_t rows : {0, 1, 5, 3001}) {
                        auto one = sum;
                        one.rows = rows;
                        one.result = result;
                        one.prescale = 2;
                        one.postscale = 0.3;
                        run_one(world, place, one);
                    }
                }
                for (const std::int64_t rows : {0, 1, 29}) {
                    auto scattered = sum;
                    scattered.op = HVD_REDUCESCATTER;
                    scattered.rows = rows;
                    scattered.columns = 3;
                    scattered.result = rows == 29 ? beside : by_library;
                    run_one(world, place, scattered);
                }
            }
        }
    }
}

hvd_counters counters_of(const World& world) {
    hvd_counters counters{};
    counters.struct_size = sizeof counters;
    require(hvd_counters_of(world.context(), &counters) == HVD_OK, "hvd_counters_of");
    return counters;
}

/// As many gradients as ResNet-50 has, a third of them each rounded in one way, or not at all.
void check_gradients(World& world, Place& place) {
    for (int step = 0; step < 3; ++step) {
        std::deque<Side> sides;
        std::uint64_t bytes = 0;
        for (int index = 0; index < 161; ++index) {
            const std::array wires{0, std::int32_t{HVD_FLOAT16}, std::int32_t{HVD_BFLOAT16}};
            const auto wire = wires.at(static_cast<std::size_t>(index) % 3);
            const std::int64_t rows = 1 + index * 13 % 300;
            bytes += static_cast<std::uint64_t>(rows) * (wire == 0 ? 4 : 2);
            sides.emplace_back(
                world, place,
                Sum{.name = "gradient." + std::to_string(index), .wire = wire, .rows = rows});
        }
        world.barrier("step");
        const auto before = counters_of(world);
        run(world, place, sides);
        const auto after = counters_of(world);
        require(after.collective_bytes - before.collective_bytes == bytes, "halves travel");
        if (step > 0) {  // agreed by now: what one rank is the last to submit travels together
            const auto collectives = after.collectives - before.collectives;
            require(collectives >= 3 && collectives <= 3 * static_cast<std::uint64_t>(world.size()),
                    std::to_string(collectives) + " collectives of three kinds");
        }
    }
}

/// A name whose values are rounded in another way each time is agreed upon anew.
void check_changes(World& world, Place& place) {
    for (const std::int32_t wire : {0, 9, 10, 0, 10, 9}) {
        run_one(world, place, {.name = "changing", .wire = wire});
    }
}

void check_failure(World& world, const Side& side, hvd_status wanted, const std::string& words) {
    hvd_ticket ticket = 0;
    const auto status = hvd_run(world.context(), &side.request, 1, &ticket, 20'000);
    const std::string message = hvd_last_error();
    require(status == wanted, "status " + std::to_string(status));
    require(message.find(words) != std::string::npos, "'" + words + "' in '" + message + "'");
    require(ticket == 0 || hvd_release(world.context(), ticket) == HVD_OK, "releasing");
}

void check_failures(World& world, Place& place) {
    const Side greatest(world, place, {.name = "greatest", .reduce = HVD_MAX});
    check_failure(world, greatest, HVD_INVALID_ARGUMENT, "tensor 'greatest': wire_dtype float16: ");
    const Side wide(world, place, {.name = "wide", .wire = HVD_FLOAT32});
    check_failure(world, wide, HVD_INVALID_ARGUMENT, "tensor 'wide': wire_dtype 11 ");
    if (world.size() > 1) {
        const Side other(world, place, {.name = "other", .wire = world.rank() == 0 ? 0 : 9});
        check_failure(world, other, HVD_MISMATCH,
                      "tensor 'other': ranks disagree on the dtype that travels (wire_dtype): "
                      "float32 on rank 0, float16 on rank");
    }
    run_one(world, place, {.name = "afterwards"});
}

void check_plan(World& world, Place& place) {
    const Side side(world, place,
                    {.name = "plan", .reduce = HVD_AVERAGE, .result = Sum::Result::beside});
    hvd_plan* plan = nullptr;
    require(hvd_plan_create(world.context(), &side.request, 1, &plan) == HVD_OK, "a plan");
    for (int step = 0; step < 3; ++step) {
        require(hvd_plan_run(world.context(), plan, 20'000) == HVD_OK, "running a plan");
        side.check(place, *side.request.out);
    }
    require(hvd_plan_free(world.context(), plan) == HVD_OK, "freeing");
}

void check_set(World& world, Place& place) {
    if (world.size() == 1) {
        return;
    }
    std::vector<std::int32_t> members(static_cast<std::size_t>(world.size()) - 1);
    std::iota(members.begin(), members.end(), 0);
    const auto set = world.add_process_set(members);
    if (world.rank() < world.size() - 1) {
        run_one(world, place,
                {.name = "in a set", .reduce = HVD_AVERAGE, .set = set, .ranks = world.size() - 1});
    }
    world.remove_process_set(set);
}

/// The last rank joins at once, and the others average without it.
void check_join(World& world, Place& place) {
    if (world.rank() < world.size() - 1) {
        for (const auto wire : kWires) {
            run_one(world, place,
                    {.name = "beside a join",
                     .wire = wire,
                     .reduce = HVD_AVERAGE,
                     .ranks = world.size() - 1,
                     .size = world.size()});
        }
    }
    const Tensor here(place, HVD_FLOAT32, {}, 1);
    hvd_tensor device = here.raw;
    device.data = nullptr;
    device.ndim = 0;
    hvd_request join{};
    join.struct_size = sizeof join;
    join.name = "join";
    join.op = HVD_JOIN;
    join.in = device.device_type == HVD_HOST ? nullptr : &device;
    hvd_ticket ticket = 0;
    require(hvd_run(world.context(), &join, 1, &ticket, 20'000) == HVD_OK, "joining");
    require(hvd_release(world.context(), ticket) == HVD_OK, "releasing");
}

class Host final : public Place {
public:
    void put(std::span<const std::byte> content, hvd_tensor& tensor) override {
        memory_.emplace_back(content.begin(), content.end());
        tensor.data = memory_.back().data();
        tensor.device_type = HVD_HOST;
    }
    [[nodiscard]] std::vector<std::byte> read(const hvd_tensor& tensor,
                                              std::size_t bytes) override {
        const auto* const from = static_cast<const std::byte*>(tensor.data);
        return {from, from + bytes};
    }

private:
    std::deque<std::vector<std::byte>> memory_;
};

void host_rounding() {
    auto world = hvd::init({.limit = {}, .process_sets = {}, .dynamic_process_sets = true});
    Host place;
    check_rounding(world, place);
}

}  // namespace

void check_rounding(World& world, Place& place) {
    check_every_kind(world, place);
    check_gradients(world, place);
    check_changes(world, place);
    check_failures(world, place);
    check_plan(world, place);
    check_set(world, place);
    check_join(world, place);
    world.barrier("end");
}

std::map<std::string, void (*)()> wire_cases() {
    return {{"rounding", host_rounding}};
}

}  // namespace hvd::test
