import { readdirSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'

const ROOT = fileURLToPath(new URL('../../..', import.meta.url))

/** Vitest's global setup: tests that start the program use `program/`, and would speak of another one if it were missing or old. */
export function setup(): void {
  const builtMs = modifiedMs(join(ROOT, 'program/edge.js'))
  if (builtMs === undefined) throw new Error('program/ is missing, and tests start it from there: run `npm run build` first')
  const newer = readdirSync(join(ROOT, 'src'), { recursive: true, encoding: 'utf8' }).filter(
    (name) => name.endsWith('.ts') && !name.endsWith('.test.ts') && modifiedMs(join(ROOT, 'src', name))! > builtMs,
  )
  if (newer.length > 0) {
    process.stderr.write(
      `\nWARNING: program/ is older than src/${newer[0]}: tests that start the program use the old one. Run \`npm run build\`.\n\n`,
    )
  }
}

function modifiedMs(path: string): number | undefined {
  return statSync(path, { throwIfNoEntry: false })?.mtimeMs
}
