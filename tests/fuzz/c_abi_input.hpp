// SPDX-License-Identifier: Apache-2.0
//
// Bytes of a fuzzer as the arguments of the C ABI.
#pragma once

#include "runtime/include/hvd/hvd.h"

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace hvd::fuzz {

/// Bytes that are taken one after the other; 0 when they are used up.
class Input {
public:
    explicit Input(std::span<const std::uint8_t> bytes) : left_(bytes) {}

    [[nodiscard]] bool is_empty() const { return left_.empty(); }

    template <class Number>
    [[nodiscard]] Number number() {
        std::array<std::uint8_t, sizeof(Number)> bytes{};
        for (auto& byte : bytes) {
            if (!left_.empty()) {
                byte = left_.front();
                left_ = left_.subspan(1);
            }
        }
        Number value{};
        std::memcpy(&value, bytes.data(), sizeof value);
        return value;
    }

    [[nodiscard]] std::size_t below(std::size_t end) { return number<std::uint8_t>() % end; }

    /// Not for the 0 that follows the end.
    [[nodiscard]] bool one_in(std::size_t count) { return below(count) == count - 1; }

    template <class Value, std::size_t kCount>
    [[nodiscard]] Value pick(const std::array<Value, kCount>& values) {
        return values[below(kCount)];
    }

    [[nodiscard]] std::string text();

private:
    std::span<const std::uint8_t> left_;
};

/// Structs as callers may have them. Each lies alone in memory of exactly the size that its caller
/// promises, as far as the library may look; all live as long as this object.
class Structs {
public:
    struct Requests {
        const hvd_request* first;
        std::size_t count;
    };

    explicit Structs(Input& input) : input_(input) {}

    /// To be filled: of any size and content, or NULL.
    template <class Struct>
    [[nodiscard]] Struct* empty() {
        if (input_.one_in(32)) {
            return nullptr;
        }
        const auto size = any_size(sizeof(Struct));
        auto* const memory = allocate(promised(size));
        fill(memory, promised(size), sizeof(Struct));
        std::memcpy(memory, &size, sizeof size);
        return reinterpret_cast<Struct*>(memory);
    }

    [[nodiscard]] Requests requests();
    [[nodiscard]] const hvd_init_options* options();
    [[nodiscard]] const hvd_process_set* set();

private:
    [[nodiscard]] std::size_t any_size(std::size_t usual);
    [[nodiscard]] static std::size_t promised(std::size_t size);
    [[nodiscard]] std::byte* allocate(std::size_t bytes);
    void fill(std::byte* memory, std::size_t bytes, std::size_t known);
    [[nodiscard]] hvd_request request();
    [[nodiscard]] const hvd_tensor* tensor();
    [[nodiscard]] hvd_process_set members();

    /// `value` cut or extended to the size that its struct_size says.
    template <class Struct>
    [[nodiscard]] const Struct* store(Struct value);
    void store_at(std::byte* memory, const void* value, std::size_t known, std::size_t size);

    template <class Number>
    [[nodiscard]] Number* numbers(const std::vector<Number>& values);

    Input& input_;
    std::vector<std::unique_ptr<std::byte[]>> memory_;  // NOLINT(modernize-avoid-c-arrays)
};

}  // namespace hvd::fuzz
