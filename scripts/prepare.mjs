// `npm ci`, `npm install`, `npm pack` and an installation from git run this: dist/ and program/ are built wherever they can be.
import { spawnSync } from 'node:child_process'
import { existsSync, rmSync } from 'node:fs'
import { fileURLToPath } from 'node:url'

process.chdir(fileURLToPath(new URL('..', import.meta.url)))

const PACKING = ['pack', 'publish']
const BUILT = ['dist', 'program']
// Of this folder alone: a `tsc` of the system or of a folder above may be of another version.
const COMPILER = 'node_modules/typescript/bin/tsc'

if (!existsSync('src')) {
  // What npm has unpacked is built already, and has no source.
} else if (existsSync(COMPILER)) {
  build()
} else if (BUILT.every((folder) => existsSync(folder))) {
  process.stderr.write('edge: TypeScript is not installed, so dist/ and program/ are left as they are.\n')
} else {
  process.stderr.write(
    'edge: not built: TypeScript is not installed, and dist/ or program/ is missing.\n' +
      'To build, then drop what only development needs: npm ci && npm prune --omit=dev\n',
  )
  // A package without them could be installed and never run.
  if (PACKING.includes(process.env.npm_command)) process.exitCode = 1
}

function build() {
  // What a deleted source file has left there would be packed.
  for (const folder of BUILT) rmSync(folder, { recursive: true, force: true })
  run(COMPILER, '-p', 'tsconfig.build.json')
  run('scripts/bundle.mjs')
}

function run(...args) {
  const { status, error } = spawnSync(process.execPath, args, { stdio: 'inherit' })
  if (error) throw error
  if (status !== 0) process.exit(status ?? 1)
}
