// SPDX-License-Identifier: Apache-2.0
#include "runtime/bootstrap/key_value_store.hpp"

#include "collectives/base/text.hpp"

#include <cstdlib>
#include <utility>

#include <sys/types.h>
#include <unistd.h>

namespace hvd::rt {
namespace {

Result<std::unique_ptr<KeyValueStore>> open_key_value_store(const Environment& environment,
                                                            int size,
                                                            Deadline deadline) {
    if (const auto text = find(environment, "PMI_FD"); text && size != 0) {
        const auto socket = parse_number<int>(*text);
        if (!socket || *socket < 0) {
            return Error{Errc::invalid_argument, "PMI_FD='" + *text + "' is no descriptor"};
        }
        return open_pmi(*socket, deadline);
    }
    if (find(environment, "PMIX_NAMESPACE") || size == 0) {
        return open_pmix(size);
    }
    return Error{Errc::unavailable, "the launcher offers neither PMI-1 (PMI_FD) nor PMIx"};
}

}  // namespace

Result<KeyValueStore*> find_key_value_store(const Environment& environment,
                                            int size,
                                            Deadline deadline) {
    // Leaked on purpose: see KeyValueStore. World::join calls one at a time.
    static KeyValueStore* store = nullptr;
    static pid_t owner = 0;
    if (store == nullptr) {
        HVD_TRY(auto opened, open_key_value_store(environment, size, deadline));
        store = opened.release();
        owner = ::getpid();
        (void)std::atexit([] {
            if (owner == ::getpid()) {  // not in a forked child
                store->finish();
            }
        });
    }
    return store;
}

}  // namespace hvd::rt
