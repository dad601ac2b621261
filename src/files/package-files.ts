import { existsSync, readFileSync } from 'node:fs'

/** The package's own folder: two levels above `src/files/` and `dist/files/`, or one level above `program/` if the program is bundled. */
const PACKAGE = new URL(existsSync(new URL('../package.json', import.meta.url)) ? '../' : '../../', import.meta.url)

const { version } = JSON.parse(readFileSync(new URL('package.json', PACKAGE), 'utf8')) as { version: string }

/** The version of this release, from package.json. */
export const VERSION = version

/** Returns the text of a file below `assets/`. */
export function assetText(name: string): string {
  return readFileSync(asset(name), 'utf8')
}

/** Returns the URL of a file below `assets/`. */
export function asset(name: string): URL {
  return new URL(`assets/${name}`, PACKAGE)
}
