#include "test.h"

/* The linker takes it for programs that have no main() of their own. */
int main(void)
{
    return test_run_all();
}
