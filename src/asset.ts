import { readFileSync } from 'node:fs'

/** The text of a file below `assets/`. */
export function assetText(name: string): string {
  return readFileSync(asset(name), 'utf8')
}

/** Where a file below `assets/` is. This file must stay as deep in src/ as the program's files are in program/. */
export function asset(name: string): URL {
  return new URL(`../assets/${name}`, import.meta.url)
}
