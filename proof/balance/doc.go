// Command balance prints how much there is of botwired: lines, settings, commands, paths,
// words and the size of the program, each beside its budget, and for each package how many
// of the uses among its files run back up. It is read before and after a change, and
// nothing fails by what it says.
//
// A use is a name of the package, with methods and fields, that another file of the package
// declares. The files of a package are put into the order in which the fewest uses run back
// up: from a file to one that stands above it. That order is found by a heuristic, the same
// for the same files.
package main
