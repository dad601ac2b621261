import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'

export const ROOT = fileURLToPath(new URL('../../', import.meta.url))

export function readText(path: string): string {
  return readFileSync(join(ROOT, path), 'utf8')
}

const NOT_OURS = new Set(['node_modules', 'dist', 'program', '.git'])

/** Every Markdown file of the project, or of a folder, by its path from the root. */
export function markdownFiles(folder = ''): string[] {
  return filesNamed(/\.md$/, folder)
}

/** Every file of the project in which people write sentences or comments, by its path from the root. */
export function textFiles(): string[] {
  return filesNamed(/\.(md|[cm]?[jt]sx?|css|html|json|lua|proto|sh|ya?ml)$/)
}

function filesNamed(pattern: RegExp, folder = ''): string[] {
  return readdirSync(join(ROOT, folder), { withFileTypes: true }).flatMap((entry) => {
    const path = join(folder, entry.name)
    if (entry.isDirectory()) return NOT_OURS.has(entry.name) ? [] : filesNamed(pattern, path)
    return entry.isFile() && pattern.test(entry.name) ? [path] : []
  })
}

/** Anchors as GitHub makes them from headings, and those that a file sets itself. Of two equal headings the second ends in `-1`. */
export function anchorsOf(file: string): string[] {
  const text = withoutCodeBlocks(readText(file))
  const plain = Array.from(text.matchAll(/^#+ (.*)$/gm), ([, heading]) =>
    heading!
      .toLowerCase()
      .replace(/[^\p{L}\p{N} _-]/gu, '')
      .replaceAll(' ', '-'),
  )
  const headings = plain.map((anchor, index) => {
    const before = plain.slice(0, index).filter((other) => other === anchor).length
    return before === 0 ? anchor : `${anchor}-${before}`
  })
  return [...headings, ...Array.from(text.matchAll(/<a id="([^"]+)"><\/a>/g), ([, id]) => id!)]
}

/** The content of the code blocks in one language. */
export function codeBlocks(text: string, language: string): string[] {
  return [...text.matchAll(/^```(\w*)\n(.*?)^```$/gms)].filter((block) => block[1] === language).map((block) => block[2]!)
}

export function withoutCodeBlocks(text: string): string {
  return text.replace(/^```.*?^```$/gms, '')
}

/** The rows of all tables that have these column names, as plain cells. */
export function tableRows(text: string, columns: readonly string[]): string[][] {
  const lines = text.split('\n')
  const isHead = (line: string): boolean => line.startsWith('|') && cells(line).join() === columns.join()
  const starts = lines.flatMap((line, index) => (isHead(line) ? [index] : []))
  if (starts.length === 0) throw new Error(`there is no table with the columns ${columns.join(', ')}`)
  return starts.flatMap((start) => {
    const end = lines.findIndex((line, index) => index > start && !line.startsWith('|'))
    return lines.slice(start + 2, end < 0 ? undefined : end).map(cells)
  })
}

function cells(line: string): string[] {
  return line
    .slice(1, -1)
    .split('|')
    .map((cell) => cell.trim())
}

/** A cell that holds nothing but `code` words, such as `` `a`, `b` ``; the word "none" is an empty list. */
export function codeWords(cell: string): string[] {
  if (cell === 'none') return []
  return cell.split(', ').map((word) => /^`([^`]+)`$/.exec(word)?.[1] ?? `not a code word: ${word}`)
}
