/** Characters that a browser would interpret or hide: control characters, and marks that change the direction of text. */
const UNPRINTABLE = /[\p{Cc}\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff]/gu

/** Makes all characters of somebody else's text visible: a mark that hides or reorders the characters around it becomes `\u{202e}`. */
export function printable(text: string): string {
  return text.replace(UNPRINTABLE, (character) => `\\u{${character.codePointAt(0)!.toString(16)}}`)
}
