# The line of `ucx_gaudi enable --system` goes with the program that wrote it. An upgrade keeps it: 1 copy is left then.
if [ "$1" = 0 ]; then
    ucx_gaudi disable --system || true # it has said what is left to do by hand
fi
