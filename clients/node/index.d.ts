/**
 * The path of the botwired program for this platform.
 *
 * It throws an Error that says what to do if the package with the program is not installed, or if
 * there is none for this platform.
 */
export function binary(): string;
