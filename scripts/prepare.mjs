// `npm ci`, `npm install`, `npm pack` and installations from git run this: it builds dist/ and program/ wherever that is possible.
import { spawnSync } from 'node:child_process'
import { existsSync, rmSync } from 'node:fs'
import { fileURLToPath } from 'node:url'

process.chdir(fileURLToPath(new URL('..', import.meta.url)))

const PACKING = ['pack', 'publish']
const BUILT = ['dist', 'program']
// Only the compiler in this folder is used: a global `tsc`, or one in a folder above, may have another version.
const COMPILER = 'node_modules/typescript/bin/tsc'

if (!existsSync('src')) {
  // A package that npm has unpacked is already built and has no source.
} else if (existsSync(COMPILER)) {
  build()
} else if (BUILT.every((folder) => existsSync(folder))) {
  process.stderr.write('edge: TypeScript is not installed, so dist/ and program/ are left as they are.\n')
} else {
  process.stderr.write(
    'edge: not built: TypeScript is not installed, and dist/ or program/ is missing.\n' +
      'To build, then drop what only development needs: npm ci && npm prune --omit=dev\n',
  )
  // A package without them could be installed but never run.
  if (PACKING.includes(process.env.npm_command)) process.exitCode = 1
}

function build() {
  // Leftovers of deleted source files would be packed.
  for (const folder of BUILT) rmSync(folder, { recursive: true, force: true })
  // Types are checked by `npm run check`; here that would take longer than all the rest.
  run(COMPILER, '-p', 'tsconfig.build.json', '--noCheck')
  run('scripts/bundle.mjs')
}

function run(...args) {
  const { status, error } = spawnSync(process.execPath, args, { stdio: 'inherit' })
  if (error) throw error
  if (status !== 0) process.exit(status ?? 1)
}
