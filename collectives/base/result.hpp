// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "collectives/base/error.hpp"

#include <cassert>
#include <optional>
#include <utility>
#include <variant>

namespace hvd {

/// A T or the Error that prevented it: the part of std::expected (C++23) that we use, under the
/// same names, so that an alias can replace this file one day.
template <class T>
class [[nodiscard]] Result {
public:
    using value_type = T;

    // Implicit on purpose: `return value;` and `return error;` both read well.
    // NOLINTBEGIN(google-explicit-constructor)
    Result(T value) : state_(std::in_place_index<0>, std::move(value)) {}
    Result(Error error) : state_(std::in_place_index<1>, std::move(error)) {}
    // NOLINTEND(google-explicit-constructor)

    [[nodiscard]] bool has_value() const noexcept { return state_.index() == 0; }
    explicit operator bool() const noexcept { return has_value(); }

    [[nodiscard]] T& value() & { return checked<0>(*this); }
    [[nodiscard]] const T& value() const& { return checked<0>(*this); }
    [[nodiscard]] T value() && { return std::move(checked<0>(*this)); }

    T* operator->() { return &value(); }
    const T* operator->() const { return &value(); }
    T& operator*() & { return value(); }
    const T& operator*() const& { return value(); }

    [[nodiscard]] const Error& error() const& { return checked<1>(*this); }
    [[nodiscard]] Error error() && { return std::move(checked<1>(*this)); }

private:
    template <std::size_t kIndex, class Self>
    static auto& checked(Self& self) {
        assert(self.state_.index() == kIndex && "Result read from the wrong side");
        return *std::get_if<kIndex>(&self.state_);
    }

    std::variant<T, Error> state_;
};

/// Success carries nothing, and costs a caller the look at one flag.
template <>
class [[nodiscard]] Result<std::monostate> {
public:
    using value_type = std::monostate;

    // NOLINTBEGIN(google-explicit-constructor): as above
    Result(std::monostate /*success*/) noexcept {}
    Result(Error error) : error_(std::move(error)) {}
    // NOLINTEND(google-explicit-constructor)

    [[nodiscard]] bool has_value() const noexcept { return !error_.has_value(); }
    explicit operator bool() const noexcept { return has_value(); }
    [[nodiscard]] std::monostate value() const noexcept {
        assert(!error_ && "Result read from the wrong side");
        return {};
    }

    [[nodiscard]] const Error& error() const& {
        assert(error_ && "Result read from the wrong side");
        return *error_;
    }
    [[nodiscard]] Error error() && {
        assert(error_ && "Result read from the wrong side");
        return *std::move(error_);
    }

private:
    std::optional<Error> error_;
};

using Status = Result<std::monostate>;

[[nodiscard]] inline Status ok() {
    return std::monostate{};
}

}  // namespace hvd

// HVD_TRY(auto hosts, parse_hosts(text));  -- declares `hosts`, or returns the Error to the caller.
// HVD_TRY_STATUS(socket.send(frame));      -- the same for a Status.
// HVD_TRY is two statements: always inside braces.
// NOLINTBEGIN(bugprone-macro-parentheses): the arguments are a declaration and a name.
#define HVD_DETAIL_JOIN2(a, b) a##b
#define HVD_DETAIL_JOIN(a, b) HVD_DETAIL_JOIN2(a, b)
#define HVD_DETAIL_TRY(tmp, declaration, expression) \
    auto tmp = (expression);                         \
    if (!tmp) {                                      \
        return std::move(tmp).error();               \
    }                                                \
    declaration = std::move(tmp).value()
#define HVD_TRY(declaration, expression) \
    HVD_DETAIL_TRY(HVD_DETAIL_JOIN(hvd_try_, __LINE__), declaration, expression)
#define HVD_TRY_STATUS(expression)                           \
    do {                                                     \
        if (auto hvd_outcome = (expression); !hvd_outcome) { \
            return std::move(hvd_outcome).error();           \
        }                                                    \
    } while (false)
// NOLINTEND(bugprone-macro-parentheses)
