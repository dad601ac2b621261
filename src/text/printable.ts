/**
 * Characters that a terminal would obey or hide: control characters, and marks that change the direction of text. U+0080 to
 * U+009F are control characters too: U+009B alone begins an escape sequence.
 */
// biome-ignore lint/suspicious/noControlCharactersInRegex: they are what is looked for
const UNPRINTABLE = /[\u0000-\u001f\u007f-\u009f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff]|\p{Surrogate}/gu

/** Makes an untrusted text safe to print on one line: characters that are not printable are shown as their code points. */
export function printableText(text: string): string {
  return text.replace(UNPRINTABLE, (character) => `\\u{${character.codePointAt(0)!.toString(16)}}`)
}

/** Makes JSON text safe to print without changing its meaning. Below U+0020, JSON has only white space between values, which stays. */
export function printableJson(json: string): string {
  return json.replace(UNPRINTABLE, (character) => {
    if (character < ' ') return character
    return `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`
  })
}

/**
 * What has no look of its own, such as a tag, a soft hyphen or a filler, what looks like a space and is none, what looks different everywhere (private use,
 * unassigned), and what a terminal would obey. A selector that chooses the look of the emoji or keycap before it may be seen.
 */
const UNSEEN =
  /(?!(?<=\p{Extended_Pictographic}\p{Emoji_Modifier}?)[\ufe0e\ufe0f]|(?<=[0-9#*])\ufe0f\u20e3)[\p{C}\p{Zl}\p{Zp}\p{Default_Ignorable_Code_Point}\u2800]|(?![ \u3000])\p{Zs}/u

/** The wide space, except where it belongs: between letters or digits of which one is of a script that is written with it. */
const STRAY_SPACE =
  /(?<![ーｰ\u3099\u309a\p{sc=Han}\p{sc=Hira}\p{sc=Kana}\p{sc=Bopo}\p{sc=Hang}])\u3000(?![\p{sc=Han}\p{sc=Hira}\p{sc=Kana}\p{sc=Bopo}\p{sc=Hang}])|(?<![\p{L}\p{M}\p{N}])\u3000|\u3000(?![\p{L}\p{N}])/u

/** Whether people see all of a text, so that two texts of which they see the same are not told apart by something hidden. */
export function isAllSeen(text: string): boolean {
  return !UNSEEN.test(text) && !STRAY_SPACE.test(text)
}

/** Returns an untrusted text in quotation marks, safe to print in a message. */
export function quoted(text: string): string {
  return printableJson(JSON.stringify(text))
}
