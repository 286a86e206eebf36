// Chooses one of many small items (cells of a map, bars of a chart) with the pointer or the arrow keys.

import { useId, useState } from "./react.js";

/** Return the active index or null, the attributes of the container, and a function for the attributes of each item. */
export const useActiveItem = (count, columns = count) => {
  const id = useId();
  const [chosen, setActive] = useState(null);
  const active = chosen === null || chosen >= count ? null : chosen;
  const steps = { ArrowDown: columns, ArrowLeft: -1, ArrowRight: 1, ArrowUp: -columns, End: count, Home: -count };
  const holder = {
    "aria-activedescendant": active === null ? undefined : `${id}${active}`,
    onBlur: () => setActive(null),
    onFocus: () => setActive((now) => now ?? 0),
    onKeyDown: (event) => {
      if (event.key in steps) {
        event.preventDefault();
        setActive(Math.min(Math.max((active ?? 0) + steps[event.key], 0), count - 1));
      }
    },
    onMouseLeave: () => setActive(null),
    role: "listbox",
    tabIndex: 0,
  };
  const item = (index) => ({
    "aria-selected": index === active,
    id: `${id}${index}`,
    onMouseEnter: () => setActive(index),
    role: "option",
  });
  return [active, holder, item];
};
