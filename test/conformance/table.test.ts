import { readdirSync, readFileSync } from 'node:fs'
import { describe, expect, test } from 'vitest'

/** docs/conformance.md maps statements to tests. This keeps the two in step. */

interface Row {
  readonly statement: string
  readonly ids: readonly string[]
  readonly files: readonly string[]
  readonly remark: string
}

const FOLDER = new URL('./', import.meta.url)
const ID = /[a-z]+-\d+/

const rows = readRows(readFileSync(new URL('../../docs/conformance.md', FOLDER), 'utf8'))
const titled = readdirSync(FOLDER)
  .filter((file) => file.endsWith('.test.ts'))
  .flatMap((file) => titledIds(file).map((id) => ({ id, file })))

describe('docs/conformance.md', () => {
  test('every id in it is the id of a test', () => {
    const known = new Set(titled.map(({ id }) => id))
    expect(rows.flatMap(({ ids }) => ids).filter((id) => !known.has(id))).toEqual([])
  })

  test('every test with an id is in it', () => {
    const listed = new Set(rows.flatMap(({ ids }) => ids))
    expect(titled.map(({ id }) => id).filter((id) => !listed.has(id))).toEqual([])
    expect(titled.length).toBeGreaterThan(100)
  })

  test('an id belongs to one test', () => {
    const ids = titled.map(({ id }) => id)
    expect(ids.filter((id, index) => ids.indexOf(id) !== index)).toEqual([])
  })

  test('each row links the files that hold its tests, and only those', () => {
    for (const { statement, ids, files } of rows) {
      const holding = new Set(ids.map((id) => titled.find((entry) => entry.id === id)?.file))
      expect([statement, new Set(files)]).toEqual([statement, holding])
    }
  })

  test('each row without a test says why there is none', () => {
    const excused = /^not tested: ./
    const silent = rows.filter(({ ids, remark }) => ids.length === 0 && !excused.test(remark))
    expect(silent.map(({ statement }) => statement)).toEqual([])
  })
})

function readRows(text: string): Row[] {
  const cells = text.split('\n').flatMap((line) => (/^\| (?!Statement|-)/.test(line) ? [line.slice(1, -1).split('|')] : []))
  return cells.map(([statement, tests, file]) => {
    // Behind the first word that is no id, ids are only mentioned.
    const [list] = /^(`[a-z]+-\d+`(, )?)*/.exec(tests!.trim())!
    return {
      statement: statement!.trim(),
      ids: list.match(new RegExp(ID, 'g')) ?? [],
      files: [...file!.matchAll(/\(\.\.\/test\/conformance\/([^)]+)\)/g)].map((match) => match[1]!),
      remark: tests!.trim().slice(list.length),
    }
  })
}

function titledIds(file: string): string[] {
  const titles = readFileSync(new URL(file, FOLDER), 'utf8').matchAll(new RegExp(`\\('\\[(${ID.source})\\] `, 'g'))
  return [...titles].map((match) => match[1]!)
}
