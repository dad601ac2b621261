import { readdirSync, readFileSync } from 'node:fs'
import { dirname, join } from 'node:path/posix'

/** What is read for imports. */
const FOLDERS = ['console', 'scripts', 'src', 'test']
const CODE = /\.(?:tsx?|mjs)$/
const IMPORTED = /(?:from|import)\s*\(?\s*'(\.[^']+)'/g
/** Files that are read or started rather than imported. */
const NAMED = /(?:new URL\(\s*|import\.meta\.dirname, )(['`])(\.[^'`]*)\1/g
const ENTRY = 'src/cli/main.ts'

/** A file of a graph, by its path below the root. */
interface Links {
  /** What it needs; a folder ends with a slash. */
  readonly needs: readonly string[]
  /** Whether it runs what `npm run build` has made of the source. */
  readonly isOnBuild: boolean
}

export interface TouchedTest {
  readonly file: string
  /** How many imports lie between it and what has changed: 0 for a test that has itself changed. */
  readonly distance: number
  /** Whether it would see the change only after a build. */
  readonly needsBuild: boolean
}

/**
 * Which tests a change touches, by what files import and name: far faster than a graph of modules that are compiled, and it goes on through
 * `dist/` and `program/`. Folders that a file names count for what lies outside of the code, such as the documentation.
 */
export class TestGraph {
  readonly #links: ReadonlyMap<string, Links>
  readonly #neededBy = new Map<string, string[]>()

  constructor(links: ReadonlyMap<string, Links>) {
    this.#links = links
    for (const [file, { needs }] of links) {
      for (const need of needs) this.#neededBy.set(need, [...(this.#neededBy.get(need) ?? []), file])
    }
  }

  /** Of a folder with the source and the tests. */
  static of(root: string): TestGraph {
    const files = FOLDERS.flatMap((folder) => {
      const names = readdirSync(join(root, folder), { recursive: true, encoding: 'utf8' })
      return names.map((name) => `${folder}/${name}`)
    })
    return new TestGraph(
      new Map(files.filter((file) => CODE.test(file)).map((file) => [file, linksIn(file, readFileSync(join(root, file), 'utf8'), files)])),
    )
  }

  /** Nearest first. */
  touchedBy(changed: readonly string[]): TouchedTest[] {
    const distances = new Map(changed.map((file) => [file, 0]))
    for (const file of changed) for (const reader of this.#readersOfFoldersOf(file)) distances.set(reader, 1)
    // Files are added behind those that are being looked at, so that each is met first on its shortest way.
    for (const [file, distance] of distances) {
      for (const importer of this.#neededBy.get(file) ?? []) if (!distances.has(importer)) distances.set(importer, distance + 1)
    }
    const hasSource = changed.some((file) => file.startsWith('src/') && !file.endsWith('.test.ts'))
    return [...distances]
      .filter(([file]) => file.endsWith('.test.ts') && this.#links.has(file))
      .map(([file, distance]) => ({ file, distance, needsBuild: hasSource && this.#runsBuild(file) }))
      .sort((a, b) => a.distance - b.distance)
  }

  #readersOfFoldersOf(file: string): string[] {
    if (FOLDERS.some((folder) => file.startsWith(`${folder}/`))) return []
    const isIn = (folder: string): boolean => folder === './' || (folder.endsWith('/') && file.startsWith(folder))
    return [...this.#neededBy].flatMap(([need, readers]) => (isIn(need) ? readers : []))
  }

  #runsBuild(test: string): boolean {
    const reached = new Set([test])
    for (const file of reached) {
      const links = this.#links.get(file)
      if (links?.isOnBuild) return true
      for (const need of links?.needs ?? []) reached.add(need)
    }
    return false
  }
}

/** What a file needs, by its text. */
export function linksIn(file: string, text: string, files: readonly string[]): Links {
  const paths = [...[...text.matchAll(IMPORTED)].map(([, path]) => path!), ...[...text.matchAll(NAMED)].map(([, , path]) => path!)]
  const found = paths.map((path) => join(dirname(file), path))
  const needs = found.flatMap((path) => {
    if (path.startsWith('program/')) return [ENTRY]
    if (path.startsWith('dist/')) return [path.replace('dist/', 'src/').replace(/\.js$/, '.ts')]
    if (path.includes('${')) return files.filter((each) => patternOf(path).test(each))
    return [/\.\w+$/.test(path) ? path : `${path.replace(/\/$/, '')}/`]
  })
  return { needs: [...new Set(needs)], isOnBuild: found.some((path) => /^(?:dist|program)\//.test(path)) }
}

/** `threads/${name}.mjs` may be any file there. */
function patternOf(path: string): RegExp {
  const parts = path.split(/\$\{[^}]*\}/).map((part) => part.replace(/[.*+?^$()[\]{}|\\]/g, '\\$&'))
  return new RegExp(`^${parts.join('[^/]*')}$`)
}
