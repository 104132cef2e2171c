# Read by the scripts that install what tests need. `install_from_debian WHAT CONSEQUENCE PURPOSE`
# prepares their calls of `$run apt-get`. Without root, or on another system, it says so and leaves;
# what needs it is then skipped, with the reason.

install_from_debian() {
    run=""
    if [ "$(id -u)" != 0 ]; then
        if command -v sudo >/dev/null && sudo -n true 2>/dev/null; then
            run="sudo -n"
        else
            echo "penstock: no $1, and no right to install it; $2" >&2
            exit 0
        fi
    fi
    if ! command -v apt-get >/dev/null; then
        echo "penstock: no $1, and no apt-get to install it; $2" >&2
        exit 0
    fi
    echo "Installing $1 for $3" >&2
    export DEBIAN_FRONTEND=noninteractive
    $run apt-get update -qq >/dev/null
}
