/* Simulated nodes alone, asked line by line: what tests/e2e/test_sim_node.py compares with real ones. */
#ifndef TESTS_SIM_ANSWERS_H
#define TESTS_SIM_ANSWERS_H

#include <stdio.h>

/* Reads lines until the end, and answers each in hex, as it goes over the wire:
 *
 *   clock MS           both clocks of all nodes stand at this Unix time from now on; not earlier than before
 *   node N             of three that are a cluster, from 0, each with a third of the slots; or `alone`: one that is
 * none
 *   owner|goes|comes SLOT N    what all nodes believe of who has a slot; where that node sends it, or has it from
 *   follows N          the node is a replica of N
 *   anything else      a command, words separated by spaces; ~ is a space within a word
 * Only commands are answered. Returns 0, or 1: a line that is none. */
int sim_answers(FILE *in, FILE *out);

#endif
