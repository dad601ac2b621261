import { readFileSync } from 'node:fs'

/** The text of a file below `assets/`. This file must stay as deep in src/ as the program's files are in program/. */
export function assetText(name: string): string {
  return readFileSync(new URL(`../assets/${name}`, import.meta.url), 'utf8')
}
