import type { ComponentType } from 'preact'
import { Login, resumeSession } from './login.tsx'
import { view } from './navigation.ts'
import { csrfToken } from './session.ts'
import { PoliciesView } from './views/policies-view.tsx'

interface View {
  readonly name: string
  readonly title: string
  readonly content: ComponentType
}

/** The first is shown where the address names none. */
const VIEWS: readonly View[] = [{ name: 'policies', title: 'Policies', content: PoliciesView }]

void resumeSession()

export function App() {
  if (csrfToken.value === undefined) return null
  if (csrfToken.value === null) return <Login />
  const shown = VIEWS.find(({ name }) => name === view.value) ?? VIEWS[0]!
  return (
    <>
      <nav aria-label="Views">
        {VIEWS.map(({ name, title }) => (
          <a key={name} href={`#/${name}`} aria-current={name === shown.name ? 'page' : undefined}>
            {title}
          </a>
        ))}
      </nav>
      <main>
        <h1>{shown.title}</h1>
        <shown.content />
      </main>
    </>
  )
}
