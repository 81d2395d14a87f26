// Package sealed is a decorator around an engine: upstream gets the names and values of sealed namespaces
// only as package seal hides and seals them. Everything above the engine sees plain names and values. Other
// namespaces pass unchanged.
//
// A value that no host of this memory has written for its entry is refused: readers get the copy here or an
// error, and the next write replaces the value. A value under a key that this host lacks is refused, too, but
// no write of this host replaces it. Names in a listing that do not open are left out.
//
// A version's writer, time and author come from the sealed value. So a fence in front of BotWire compares
// true versions. A tombstone has nothing sealed in it: upstream can delete, and say that it has.
package sealed
