import { isCredential } from './descriptor-key.ts'

/**
 * A caller of which some values are known, in the forms in which operators see them: a credential is its digest. It can be cloned, because threads send
 * it to others.
 */
export type CallerMatch =
  /** The possible forms of the value of each known key. */
  | { readonly byKey: ReadonlyMap<string, readonly string[]> }
  /** One value of an unknown key: its possible forms if that key is a credential, and if it is not. */
  | { readonly credential: readonly string[]; readonly plain: readonly string[] }

/**
 * Whether these may be values of the caller: at least one is known to be, and none is known to be another's. A value that was cut for lack of room is
 * compared as far as it goes.
 */
export function isCaller(match: CallerMatch, values: Readonly<Record<string, string>>): boolean {
  if ('byKey' in match) {
    const known = Object.entries(values).filter(([key]) => match.byKey.has(key))
    return known.length > 0 && known.every(([key, value]) => match.byKey.get(key)!.some((text) => isShownAs(text, value)))
  }
  return Object.entries(values).some(([key, value]) =>
    (isCredential(key) ? match.credential : match.plain).some((text) => isShownAs(text, value)),
  )
}

function isShownAs(text: string, shown: string): boolean {
  return shown === text || (shown.endsWith('…') && text.length >= shown.length && text.startsWith(shown.slice(0, -1)))
}
