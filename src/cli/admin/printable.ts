import { printableText } from '../../printable-text.ts'
import { textOfBytes } from './field-bytes.ts'

/** A response with every text in it printable, names included. */
export function printable(value: unknown): unknown {
  if (typeof value === 'string') return printableText(textOfBytes(value))
  if (Array.isArray(value)) return value.map(printable)
  if (typeof value !== 'object' || value === null) return value
  return Object.fromEntries(Object.entries(value).map(([name, member]) => [printableText(name), printable(member)]))
}
