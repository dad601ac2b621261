/**
 * Assigns positions, and so colours, to the names of a chart's lines. A line keeps its position for as long as it is shown, however the amounts
 * change; a new one gets the first position that is free.
 */
export function linePlaces(before: readonly (string | undefined)[], names: readonly string[]): readonly (string | undefined)[] {
  const places = before.map((name) => (name !== undefined && names.includes(name) ? name : undefined))
  for (const name of names.filter((one) => !places.includes(one))) {
    const free = places.indexOf(undefined)
    places[free === -1 ? places.length : free] = name
  }
  return places
}
