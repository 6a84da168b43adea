// SPDX-License-Identifier: Apache-2.0
#include "collectives/backend.hpp"

#include <string>

namespace hvd::coll {

Result<std::unique_ptr<Work>> Communicator::start(const Task& task) {
    if (broken_) {
        return Error{Errc::aborted, std::string(name_) + ": an earlier collective failed"};
    }
    // The only place where an exception from a vendor check becomes a value: each backend may then
    // use throwing wrappers inside, and the engine never needs a try block.
    try {
        return do_start(task);
    } catch (const Exception& exception) {
        broken_ = true;
        return Error(exception.error()).context(name_);
    }
}

void Communicator::abort(const Error& cause) {
    broken_ = true;
    do_abort(cause);
}

}  // namespace hvd::coll
