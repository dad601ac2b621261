import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { type Import, ROOT, sourceImports } from './source-imports.ts'

/** A row of the table in ARCHITECTURE.md: what the files of a room may import, beside files of the same room. */
interface Room {
  readonly path: string
  /** Rooms, packages, `Node`, or `everything`. */
  readonly may: ReadonlySet<string>
  /** The same for imports of types alone. */
  readonly mayTypes: ReadonlySet<string>
  /** Rooms and modules of Node that it may not import all the same. */
  readonly never: ReadonlySet<string>
}

const ROOMS = readRooms(readFileSync(join(ROOT, 'ARCHITECTURE.md'), 'utf8'))

test('ARCHITECTURE.md has every room of src, and no room that is not there', () => {
  const rooms = readdirSync(join(ROOT, 'src'), { withFileTypes: true }).filter((entry) => entry.isDirectory())
  const named = new Set(ROOMS.map(({ path }) => path.split('/')[0]))
  expect([...named].sort()).toEqual(rooms.map(({ name }) => name).sort())
})

test('no room imports what ARCHITECTURE.md does not allow', () => {
  expect(broken(ROOMS, sourceImports())).toEqual([])
})

test('no room may import what nothing in it imports', () => {
  expect(unused(ROOMS, sourceImports())).toEqual([])
})

test('a forbidden import is found, and so is an entry that nothing needs', () => {
  const rooms = readRooms(
    [
      '| Room | What it is for | May import |',
      '| --- | --- | --- |',
      '| `a` | One. | `b`, zod; types of `c`, `d` |',
      '| `a/inner` | Two. | everything but `c` |',
      '| `b` | Three. | nothing |',
      '| `c` | Four. | nothing |',
      '| `d` | Five. | nothing |',
      '| `e` | Six. | `b`, Node but node:net; types of `c` |',
    ].join('\n'),
  )
  const imports = new Map<string, readonly Import[]>([
    ['a/one.ts', [value('b/x.ts'), value('zod'), type('c/y.ts'), value('a/two.ts')]],
    ['a/two.ts', [value('c/y.ts'), value('node:fs'), value('a/inner/three.ts')]],
    ['e/four.ts', [value('b/x.ts'), value('node:fs'), type('node:net'), type('c/y.ts')]],
    ['a/inner/three.ts', [value('node:fs'), type('c/y.ts'), value('b/x.ts')]],
  ])
  expect(broken(rooms, imports)).toEqual([
    'src/a/two.ts imports c/y.ts: `a` may import types of `c` only.',
    'src/a/two.ts imports node:fs: `a` may not import `Node`.',
    'src/a/two.ts imports a/inner/three.ts: `a` may not import `a/inner`.',
    'src/e/four.ts imports node:net: `e` may not import `node:net`.',
    'src/a/inner/three.ts imports c/y.ts: `a/inner` may not import `c`.',
  ])
  expect(unused(rooms, imports)).toEqual(['`a`: types of `d`'])
})

function value(name: string): Import {
  return { name, isType: false }
}

function type(name: string): Import {
  return { name, isType: true }
}

function broken(rooms: readonly Room[], imports: ReadonlyMap<string, readonly Import[]>): string[] {
  return [...imports].flatMap(([file, names]) => {
    const room = roomOf(rooms, file)
    if (room === undefined) return file.includes('/') ? [`src/${file} is in no room.`] : []
    return names.flatMap(({ name, isType }) => {
      const target = targetOf(rooms, name)
      if (target === room.path || (isAllowed(room, target, isType) && !room.never.has(name))) return []
      const why = room.never.has(name)
        ? `may not import \`${name}\``
        : isAllowed(room, target, true)
          ? `may import types of \`${target}\` only`
          : `may not import \`${target}\``
      return [`src/${file} imports ${name}: \`${room.path}\` ${why}.`]
    })
  })
}

function isAllowed({ may, mayTypes, never }: Room, target: string, isType: boolean): boolean {
  if (never.has(target)) return false
  return may.has('everything') || may.has(target) || (isType && mayTypes.has(target))
}

function unused(rooms: readonly Room[], imports: ReadonlyMap<string, readonly Import[]>): string[] {
  return rooms.flatMap(({ path, may, mayTypes }) => {
    const own = [...imports].filter(([file]) => roomOf(rooms, file)?.path === path).flatMap(([, names]) => names)
    const [values, types] = [false, true].map((isType) => {
      return new Set(own.filter((entry) => entry.isType === isType).map(({ name }) => targetOf(rooms, name)))
    }) as [Set<string>, Set<string>]
    return [
      ...[...may].filter((name) => name !== 'everything' && !values.has(name)).map((name) => `\`${path}\`: \`${name}\``),
      ...[...mayTypes].filter((name) => !types.has(name)).map((name) => `\`${path}\`: types of \`${name}\``),
    ]
  })
}

/** The room of a file is the row whose path is the longest that the file's begins with. */
function roomOf(rooms: readonly Room[], file: string): Room | undefined {
  return rooms.filter(({ path }) => file.startsWith(`${path}/`)).sort((a, b) => b.path.length - a.path.length)[0]
}

function targetOf(rooms: readonly Room[], name: string): string {
  if (name.startsWith('node:')) return 'Node'
  if (name.endsWith('.ts')) return roomOf(rooms, name)?.path ?? name
  return name.startsWith('@') ? name.split('/', 2).join('/') : name.split('/', 1)[0]!
}

function readRooms(map: string): Room[] {
  const rows = [...map.matchAll(/^\| `([\w/-]+)` \| .+? \| (.+?) \|$/gm)]
  return rows.map(([, path, cell]) => {
    const [values, types = ''] = cell!.split('types of ')
    const [may, never = ''] = values!.split(' but ')
    const list = (text: string): Set<string> =>
      new Set([...text.matchAll(/[\w@/:-]+/g)].map(([name]) => name).filter((name) => name !== 'nothing'))
    return { path: path!, may: list(may!), mayTypes: list(types), never: list(never) }
  })
}
