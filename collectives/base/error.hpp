// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <exception>
#include <string>
#include <string_view>
#include <utility>

namespace hvd {

/// Tells a caller what to do about a failure; never which library reported it.
enum class Errc {
    invalid_argument,  // the user must change the input
    unavailable,       // a peer, host or device is gone or unreachable
    timed_out,         // the deadline passed; the state of the peer is unknown
    aborted,           // another rank failed or a shutdown was requested
    mismatch,          // ranks disagree (name, shape, type, operation)
    unsupported,       // this build or machine cannot do it
    internal,          // a vendor library failed or we have a bug
};

/// For messages that carry one: see fields.hpp.
constexpr Errc last_of(Errc /*any*/) noexcept {
    return Errc::internal;
}

[[nodiscard]] std::string_view to_string(Errc code) noexcept;

/// A failure as a value: one code for the program, one sentence for the person.
struct Error {
    Errc code = Errc::internal;
    std::string message;

    /// Prefixes the message, so that it reads from the outer step to the cause.
    [[nodiscard]] Error context(std::string_view step) &&;

    friend bool operator==(const Error&, const Error&) = default;
};

/// An Error for a failed system call: "`what`: No such file or directory". `error_number` is errno.
[[nodiscard]] Error system_error(std::string_view what, int error_number);

/// Carries an Error out of code that cannot return one: constructors and vendor-call checks.
class Exception final : public std::exception {
public:
    explicit Exception(Error error) : error_(std::move(error)) {}

    [[nodiscard]] const Error& error() const noexcept { return error_; }
    [[nodiscard]] const char* what() const noexcept override { return error_.message.c_str(); }

private:
    Error error_;
};

}  // namespace hvd
