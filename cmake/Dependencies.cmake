# Libraries of others, found the ordinary way. Those that the product uses are headers only: what is loaded into other
# people's programs must not need a C++ library of this system.
find_package(CLI11 REQUIRED)
find_package(fmt REQUIRED) # only its target fmt::fmt-header-only is used
find_package(nlohmann_json REQUIRED)
find_package(tl-expected REQUIRED)
find_package(Threads REQUIRED)
find_path(IBVERBS_INCLUDE infiniband/verbs.h REQUIRED) # the ABI of the software HCA, and of the NICs that `ucx_gaudi verify` drives; nothing links the library
