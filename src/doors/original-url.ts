const SLASH = 0x2f
const QUESTION_MARK = 0x3f
const NUMBER_SIGN = 0x23

const SCHEMES = ['http://', 'https://']

/** Where the host of an absolute URL begins that is the part of `text` from `at` to `end`; -1 for any other text. */
export function hostStart(text: string, at: number, end: number): number {
  for (const scheme of SCHEMES) if (end - at >= scheme.length && isSame(text, at, scheme)) return at + scheme.length
  return -1
}

/**
 * Where the host that begins at `at` ends, and the path begins. -1 where readers may differ: gateways put a URL together from the Host
 * field and the target, and a client may send `Host: a?b` with `/c` as well as `Host: a` with `http://a?b/c`.
 */
export function hostEnd(text: string, at: number, end: number): number {
  for (let i = at; i < end; i++) {
    const code = text.charCodeAt(i)
    if (code === SLASH) return i
    if (code === QUESTION_MARK || code === NUMBER_SIGN) return -1
  }
  return end
}

/** In any case: the bit sets a letter in lower case, and changes no other character that a field or a target may have here. */
function isSame(text: string, at: number, scheme: string): boolean {
  for (let i = 0; i < scheme.length; i++) if ((text.charCodeAt(at + i) | 0x20) !== scheme.charCodeAt(i)) return false
  return true
}
