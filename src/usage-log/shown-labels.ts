import type { CallerDigest } from '../engine/decide-options.ts'
import { NO_LABELS, type UsageLabels } from '../engine/reservation.ts'
import { isCredential, isProviderKey } from '../policy/descriptor-key.ts'

/** Longer values are cut, because clients choose many of them, and each line has all. */
const MAX_CHARACTERS = 256

/** Returns the labels as they may be written and sent: credentials as digests, and long values cut. */
export function shownLabels(labels: UsageLabels, callerDigest: CallerDigest): UsageLabels {
  if (labels === NO_LABELS) return labels
  const shown: Record<string, string> = {}
  for (const [key, value] of Object.entries(labels)) {
    shown[key] = isCredential(key) || isProviderKey(key) ? callerDigest([value]) : storableText(value.slice(0, MAX_CHARACTERS))
  }
  return shown
}

/** Replaces what databases refuse in a text, so that a client cannot keep a whole file from being loaded: NUL, and halves of surrogate pairs. */
export function storableText(text: string): string {
  return text.toWellFormed().replaceAll('\0', '\ufffd')
}
