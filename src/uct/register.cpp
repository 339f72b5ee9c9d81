// SPDX-License-Identifier: BSD-3-Clause
#include "register.h"

#include "component.h"

namespace gaudi::uct {

ucx::ucs_status_t register_uct(ucx::Host &host) {
    Component::add_to(host);
    return ucx::UCS_OK;
}

} // namespace gaudi::uct
