import type { JsonString } from './json-string.ts'

/** Called by a scanner, in the order of the text. The string is valid only during the call. */
export interface JsonEvents {
  /** A name in the current object; `end`: how many bytes of the text came up to its closing quote. */
  name(name: JsonString, end: number): void
  /** `isWhole` is false where the text broke off inside the string. */
  string(string: JsonString, isWhole: boolean): void
  number(number: JsonString): void
  literal(value: boolean | null): void
  begin(isObject: boolean): void
  end(isEmpty: boolean): void
}
