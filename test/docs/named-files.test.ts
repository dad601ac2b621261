import { existsSync, readdirSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { markdownFiles, ROOT, readText, textFiles, withoutCodeBlocks } from './markdown.ts'

/** What developers read, each with the folders that the paths in it may begin at. */
const PAGES: readonly (readonly [page: string, ...bases: string[]])[] = [
  ...['ARCHITECTURE.md', 'CONTRIBUTING.md', 'docs/internals.md', ...markdownFiles('docs/decisions')].map(
    (page) => [page, '', 'src'] as const,
  ),
  ['test/README.md', '', 'src', 'test', 'test/support'],
]

test.each(PAGES)('every file and folder that %s names exists', (page, ...bases) => {
  expect(namedPaths(readText(page), bases).filter((path) => !exists(path, bases))).toEqual([])
})

test('a path is told from other words, and a file that is gone is found', () => {
  const text = [
    'See `engine/run`, `src/gone.ts` and `docs/decisions/`, at 100/minute, `POST /v1/settle` or `text/plain`.',
    '`npx vitest run test/gone.test.ts`; `src/policy/schema/<name>.ts`, `src/policy/gone/<name>.ts`, `gone.lua`, `control.lua`.',
    '    socket → engine/gone → store',
  ].join('\n')
  const named = namedPaths(text, ['', 'src'])
  expect(named.filter((path) => exists(path, ['', 'src']))).toEqual(['engine/run', 'docs/decisions/', 'src/policy/schema/', 'control.lua'])
  expect(named.filter((path) => !exists(path, ['', 'src']))).toEqual([
    'src/gone.ts',
    'test/gone.test.ts',
    'src/policy/gone/',
    'gone.lua',
    'engine/gone',
  ])
})

/** Its samples name files that do not exist. */
const THIS_FILE = 'test/docs/named-files.test.ts'

test('every file that a comment names exists', () => {
  const commented = FILES.filter(
    (file) => /^(?:assets|bench|console|examples|scripts|src|test)\/.*\.(?:lua|[cm]?[jt]sx?)$/.test(file) && file !== THIS_FILE,
  )
  const missing = commented.flatMap((file) =>
    pathsInComments(readText(file)).flatMap((path) => (exists(path, ['']) ? [] : `${file}: ${path}`)),
  )
  expect(missing).toEqual([])
})

test('paths in comments are found in both languages, and those in code are not', () => {
  const code = [
    '/** See `src/gone.ts`. */',
    'x() // gone.test.ts, https://a.example/b.ts',
    ' * src/llm/, src/gone/x-*.ts, other.md',
    "import '../src/code.ts'",
  ]
  expect(pathsInComments(code.join('\n'))).toEqual(['src/gone.ts', 'gone.test.ts', 'src/llm/', 'src/gone/'])
  expect(pathsInComments('-- (src/gone.ts)\nlocal x = 1 -- as gone.lua')).toEqual(['src/gone.ts', 'gone.lua'])
})

/** Media types, which begin with the name of a room. */
const NO_PATHS = /^text\/(?:plain|event-stream|html)$/
const GENERATED = new Set(['node_modules', 'dist', 'program', '.git'])
const CODE_FILE = /^\w[\w.-]*\.(?:ts|tsx|mjs|cjs|lua)$/

/**
 * What begins with a folder, and names of files with code; in code words and in figures, which are indented. Of a path with a placeholder, such as
 * `<name>`, the part before it.
 */
function namedPaths(text: string, bases: readonly string[]): string[] {
  const folders = new Set(bases.flatMap(foldersIn))
  const codes = [...withoutCodeBlocks(text).matchAll(/`([^`\n]+)`|^ {4,}(\S.*)$/gm)].map(([, word, line]) => (word ?? line)!)
  const words = codes.flatMap((code) => code.match(/(?<![\w/.:@$-])[\w.-]+(?:\/[\w.-]*)*[<*]?/g) ?? [])
  return words
    .map(beforePlaceholder)
    .filter((word) => !NO_PATHS.test(word) && (CODE_FILE.test(word) || (word.includes('/') && folders.has(word.split('/', 1)[0]!))))
}

function beforePlaceholder(word: string): string {
  return word.replace(/[^/]*[<*]$/, '')
}

/** Paths from the root, and names of files with code, in comments that begin a line or follow code. */
function pathsInComments(text: string): string[] {
  const comments = Array.from(text.matchAll(/(?:^[ \t]*(?:\/\/|\/?\*|--)|[ \t](?:\/\/|--)[ \t])(.*)$/gm), ([, comment]) => comment!)
  const words = comments.flatMap((comment) => comment.match(/(?<![\w/.:@$-])\w[\w./-]*[<*]?/g) ?? [])
  const named = words.map((word) => beforePlaceholder(word).replace(/[.-]+$/, ''))
  return named.filter((word) => CODE_FILE.test(word) || /^(?:assets|bench|console|docs|examples|scripts|src|test)\//.test(word))
}

function foldersIn(base: string): string[] {
  const entries = readdirSync(join(ROOT, base), { withFileTypes: true })
  return entries.filter((entry) => entry.isDirectory() && !GENERATED.has(entry.name)).map(({ name }) => name)
}

const FILES = textFiles()

/** Modules are named with their ending or without it, and files also by their names alone. */
function exists(path: string, bases: readonly string[]): boolean {
  if (CODE_FILE.test(path)) return existsSync(join(ROOT, path)) || FILES.some((file) => file.endsWith(`/${path}`))
  return bases.some((base) => ['', '.ts', '.tsx'].some((ending) => existsSync(join(ROOT, base, path + ending))))
}
