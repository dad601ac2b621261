import { existsSync, readFileSync } from 'node:fs'

/** The package's own folder, seen from `src/files/` and `dist/files/`, or from `program/` where the program is bundled. */
const PACKAGE = new URL(existsSync(new URL('../package.json', import.meta.url)) ? '../' : '../../', import.meta.url)

const { version } = JSON.parse(readFileSync(new URL('package.json', PACKAGE), 'utf8')) as { version: string }

/** This release, as package.json says. */
export const VERSION = version

/** The text of a file below `assets/`. */
export function assetText(name: string): string {
  return readFileSync(asset(name), 'utf8')
}

/** Where a file below `assets/` is. */
export function asset(name: string): URL {
  return new URL(`assets/${name}`, PACKAGE)
}
