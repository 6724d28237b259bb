package install

import "os"

// Obstacle is something in a harness's configuration that keeps its hooks from
// running, and what to do about it.
type Obstacle struct{ Says, Fix string }

// Obstacles looks for what its user switched off. It is for the user to decide,
// so that an installation leaves it as it is.
func (h *Harness) Obstacles(p Place) (all []Obstacle) {
	for _, f := range h.files(p) {
		text, err := os.ReadFile(f.settle().path)
		if err != nil || f.hooks == nil {
			continue
		}
		d, err := readJSON(text)
		if err != nil {
			continue
		}
		if d.value("disableAllHooks") == true {
			all = append(all, Obstacle{f.path + " switches all hooks off", "take disableAllHooks out of it"})
		}
		if d.value("hooksConfig", "enabled") == false {
			all = append(all, Obstacle{f.path + " switches all hooks off", "set hooksConfig.enabled in it to true"})
		}
	}
	return all
}
