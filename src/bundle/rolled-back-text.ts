import type { BundleFormat } from '../policy/schema/bundle.ts'
import { DocumentNodes } from '../text/document-nodes.ts'
import type { ReadBundle } from './bundle-reader.ts'

/**
 * The text of an earlier bundle under another version: only `bundle_version` is replaced, in its place, and comments and everything else
 * stay. It is read as the service reads it, so a text that no instance would take for the same policies is never returned. Throws an Error
 * with a sentence where it cannot be done.
 */
export async function rolledBackText(text: string, format: BundleFormat, version: string, read: ReadBundle): Promise<string> {
  const replaced = withVersion(text, format, version)
  const before = await read(Buffer.from(text), format)
  if (!before.ok) throw new Error('this version of edge cannot read the earlier bundle')
  const after = await read(Buffer.from(replaced), format, before.bundle)
  const isVersioned = after.ok && BigInt(after.bundle.version) === BigInt(version)
  const { policies, prices, reordered, callers, routing, usage } = (after.ok ? after.changes : undefined) ?? {}
  const differences = [policies, prices].flatMap((counts) => (counts ? [counts.added, counts.removed, counts.changed] : [1]))
  const isSame = [reordered, callers, routing, usage].every((hasChanged) => hasChanged === false)
  if (!isVersioned || !isSame || differences.some((count) => count > 0))
    throw new Error('its bundle_version cannot be replaced in its text: publish it by hand')
  return replaced
}

function withVersion(text: string, format: BundleFormat, version: string): string {
  const mark = text.startsWith('\ufeff') ? 1 : 0
  const document = new DocumentNodes(text.slice(mark), format)
  for (const { name, value } of document.members(0)) {
    if (name !== 'bundle_version') continue
    const { start, innerStart, innerEnd, kind } = document.nodes[value]!
    const written = text.slice(mark + innerStart, mark + innerEnd)
    // Of a block of YAML the indentation and the end of its line stay.
    const [before] = /^\s*/.exec(written)!
    const after = written.endsWith('\n') ? '\n' : ''
    const isQuoted = kind === 'scalar' && start < innerStart
    const digits = isQuoted || Number.isSafeInteger(Number(version)) ? version : JSON.stringify(version)
    return `${text.slice(0, mark + innerStart)}${before}${digits}${after}${text.slice(mark + innerEnd)}`
  }
  throw new Error('it has no bundle_version')
}
