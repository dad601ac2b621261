import { pathToFileURL } from 'node:url'

/** The engine of a built checkout, on an embedded store. `isWatched`: with what `GET top` needs. */
export async function newEngine(directory, { policies, storeBytes, isWatched = false }) {
  const load = (module) => import(new URL(`dist/${module}`, pathToFileURL(`${directory}/`)).href)
  const [{ systemClock }, { Engine }, { compileBundle }, { parseBundle }, { newEmbeddedStore }] = await Promise.all(
    ['time/clock.js', 'engine/engine.js', 'policy/compile.js', 'policy/parse.js', 'store/table/embedded-store.js'].map(load),
  )
  const parsed = parseBundle(JSON.stringify({ bundle_version: 1, policies }))
  if (!parsed.ok) throw new Error(JSON.stringify(parsed.problems))
  const store = newEmbeddedStore(storeBytes)
  const callerWatch = isWatched ? await newTop(load, store) : undefined
  const engine = new Engine({ store, clock: systemClock, callerWatch })
  engine.activate(compileBundle(parsed.bundle))
  return { engine, store, systemClock }
}

async function newTop(load, store) {
  const [{ TopCallers }, { CallerDigester }] = await Promise.all(['top/top-callers.js', 'store/caller-digester.js'].map(load))
  const hashKey = [1, 2]
  const digest = new CallerDigester(hashKey)
  return new TopCallers({ store, hashKey, callerDigest: (values) => digest.of(values) })
}
